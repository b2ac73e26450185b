"""What comes after the contract, and must not come without it.

Revision ID: d4
Revises: c3
"""

from alembic import op

revision = "d4"
down_revision = "c3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")


def downgrade() -> None:
    op.execute("DROP TABLE after_orders")
