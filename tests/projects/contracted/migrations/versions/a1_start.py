"""What is there is there: the test makes it."""

from pipestate.ddl import install_ledger

revision = "a1"
down_revision = None


def upgrade() -> None:
    install_ledger()


def downgrade() -> None:
    pass
