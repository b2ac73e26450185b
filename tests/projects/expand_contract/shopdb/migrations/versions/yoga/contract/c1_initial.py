"""The branch of contracts begins"""

from shopdb.branches import CONTRACT_BRANCH

revision = "c1"
down_revision = "r0"
branch_labels = (CONTRACT_BRANCH,)
depends_on = ("e1",)


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
