"""An index, built under a lock"""

from alembic import op

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_orders_note ON orders (slow(note))")


def downgrade() -> None:
    op.execute("DROP INDEX ix_orders_note")
