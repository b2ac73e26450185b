"""Orders, and an index that blocks writers: it is applied everywhere, and nobody asks about it any more"""

from alembic import op

revision = "a1"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
    op.create_index("ix_orders_id", "orders", ["id"])


def downgrade() -> None:
    op.drop_table("orders")
