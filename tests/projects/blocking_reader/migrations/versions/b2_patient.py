"""It waits for as long as it takes"""

from alembic import op

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    op.execute("ALTER TABLE orders ADD COLUMN b2 integer")


def downgrade() -> None:
    pass
