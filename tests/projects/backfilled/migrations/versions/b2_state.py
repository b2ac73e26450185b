"""A new column, which people fill with `pipestate backfill orders/state`."""

from alembic import op

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    op.execute("ALTER TABLE orders ADD COLUMN state varchar(10)")


def downgrade() -> None:
    op.execute("ALTER TABLE orders DROP COLUMN state")
