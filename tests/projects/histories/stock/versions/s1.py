"""The table of stock"""

from alembic import op

from pipestate.ddl import install_ledger

revision, down_revision = "s1", None


def upgrade() -> None:
    install_ledger()
    op.execute("CREATE TABLE shelves (id integer PRIMARY KEY, moved_to integer)")


def downgrade() -> None:
    op.execute("DROP TABLE shelves")
