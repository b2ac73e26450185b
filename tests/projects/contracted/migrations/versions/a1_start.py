"""What is there is there: the test makes it."""

revision = "a1"
down_revision = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
