"""It gives up, and for good"""

from alembic import op

revision = "c3"
down_revision = "b2"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '100ms'")
    op.execute("ALTER TABLE orders ADD COLUMN c3 integer")


def downgrade() -> None:
    pass
