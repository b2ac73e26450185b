"""A wider total, which rewrites the table, whose request gives up"""

from alembic import op

revision = "c3"
down_revision = "b2"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '100ms'")
    op.execute("ALTER TABLE orders ALTER COLUMN total TYPE bigint USING slow(total)")


def downgrade() -> None:
    op.execute("ALTER TABLE orders ALTER COLUMN total TYPE integer USING total")
