"""A backfill in a revision"""

from alembic import op

revision = "d4"
down_revision = "c3"


def upgrade() -> None:
    op.execute("UPDATE orders SET note = slow(note) || '!'")


def downgrade() -> None:
    op.execute("UPDATE orders SET note = 'note'")
