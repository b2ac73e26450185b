"""Another table: nothing that needs a gate.

Revision ID: b2
Revises: a1
"""

from alembic import op

revision = "b2"
down_revision = "a1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE new_orders (id int PRIMARY KEY)")


def downgrade() -> None:
    op.execute("DROP TABLE new_orders")
