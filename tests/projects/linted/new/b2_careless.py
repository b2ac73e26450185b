"""A column that no old row can have, and an index that blocks writers"""

import sqlalchemy as sa
from alembic import op

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    op.add_column("orders", sa.Column("state", sa.Text(), nullable=False))
    op.create_index("ix_orders_note", "orders", ["note"])


def downgrade() -> None:
    op.drop_index("ix_orders_note")
    op.drop_column("orders", "state")
