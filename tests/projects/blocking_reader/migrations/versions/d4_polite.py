"""It gives up, and tries again"""

from alembic import op
from pipestate.ddl import lock_tables

revision = "d4"
down_revision = "c3"


def upgrade() -> None:
    lock_tables("orders", "order_log")
    op.execute("ALTER TABLE orders ADD COLUMN d4 integer")


def downgrade() -> None:
    pass
