"""To the right"""

from alembic import op

revision: str = "right1"
down_revision: str | tuple[str, ...] | None = "r0"
branch_labels: str | tuple[str, ...] | None = ("right",)
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_right1 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_right1")
