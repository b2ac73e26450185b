"""The schema is each test's own."""

revision = "a1"
down_revision = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
