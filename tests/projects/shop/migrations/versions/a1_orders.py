"""Orders, and a log of them"""

from alembic import op

revision = "a1"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TABLE orders (id integer PRIMARY KEY, old_status text, status text)")
    op.execute("CREATE TABLE order_log (id integer PRIMARY KEY, line text NOT NULL)")
    op.execute("CREATE TABLE approvals (what text)")


def downgrade() -> None:
    op.execute("DROP TABLE approvals")
    op.execute("DROP TABLE order_log")
    op.execute("DROP TABLE orders")
