"""A column of the log, in no time, and without a bound on the wait for its lock"""

from alembic import op

revision = "f6"
down_revision = "e5"


def upgrade() -> None:
    op.execute("ALTER TABLE order_log ADD COLUMN seen boolean")


def downgrade() -> None:
    op.execute("ALTER TABLE order_log DROP COLUMN seen")
