"""Work that goes on while the contract waits.

Revision ID: d4
Revises: b2
"""

from alembic import op

revision = "d4"
down_revision = "b2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")


def downgrade() -> None:
    op.execute("DROP TABLE after_orders")
