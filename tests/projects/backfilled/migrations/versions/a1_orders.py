"""Orders, and the ledger."""

from alembic import op
from pipestate.ddl import install_ledger
from pipestate.ddl import remove_ledger

revision = "a1"
down_revision = None


def upgrade() -> None:
    op.execute(
        "CREATE TABLE orders (id integer PRIMARY KEY, old_state integer, times integer NOT NULL DEFAULT 0)"
    )
    install_ledger()


def downgrade() -> None:
    remove_ledger()
    op.execute("DROP TABLE orders")
