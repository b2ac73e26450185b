"""Orders and a log of them"""

from alembic import op

revision = "a1"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TABLE orders (id integer PRIMARY KEY, note text)")
    op.execute("CREATE TABLE order_log (id integer PRIMARY KEY, line text)")
    op.execute("CREATE INDEX ix_orders_note ON orders (note)")


def downgrade() -> None:
    pass
