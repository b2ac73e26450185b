"""Orders"""

from alembic import op
from pipestate.ddl import install_ledger
from pipestate.ddl import remove_ledger

revision = "r0"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TABLE orders (id integer PRIMARY KEY, old_status text)")
    install_ledger()


def downgrade() -> None:
    remove_ledger()
    op.execute("DROP TABLE orders")
