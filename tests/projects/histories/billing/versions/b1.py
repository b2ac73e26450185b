"""The table of billing"""

from alembic import op

from pipestate.ddl import install_ledger

revision, down_revision = "b1", None


def upgrade() -> None:
    install_ledger()
    op.execute("CREATE TABLE invoices (id integer PRIMARY KEY, moved_to integer)")


def downgrade() -> None:
    op.execute("DROP TABLE invoices")
