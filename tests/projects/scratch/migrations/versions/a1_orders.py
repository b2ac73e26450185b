"""The orders."""

import sqlalchemy as sa
from alembic import op

revision = "a1"
down_revision = None


def upgrade():
    op.create_table(
        "orders", sa.Column("id", sa.Integer, primary_key=True), sa.Column("state", sa.String(20))
    )


def downgrade():
    op.drop_table("orders")
