"""Receipts, which come after the contract"""

from alembic import op

revision = "d4"
down_revision = "c3"


def upgrade() -> None:
    op.execute("CREATE TABLE receipts (id integer PRIMARY KEY)")


def downgrade() -> None:
    op.execute("DROP TABLE receipts")
