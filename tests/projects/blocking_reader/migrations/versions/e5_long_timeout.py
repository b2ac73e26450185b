"""It gives up after five seconds"""

from alembic import op

revision = "e5"
down_revision = "d4"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE orders ADD COLUMN e5 integer")


def downgrade() -> None:
    pass
