"""A constraint, validated under its lock, without a bound on the wait for it"""

from alembic import op

revision = "e5"
down_revision = "d4"


def upgrade() -> None:
    op.execute("ALTER TABLE orders ADD CONSTRAINT noted CHECK (slow(note) <> '')")


def downgrade() -> None:
    op.execute("ALTER TABLE orders DROP CONSTRAINT noted")
