"""A status beside the old one"""

import sqlalchemy as sa
from alembic import op
from shopdb import branches

revision = "e1"
down_revision = "r0"
branch_labels = (branches.EXPAND_BRANCH,)


def upgrade() -> None:
    op.add_column("orders", sa.Column("status", sa.Text))


def downgrade() -> None:
    op.drop_column("orders", "status")
