"""Together again"""

from alembic import op

revision: str = "both"
down_revision: str | tuple[str, ...] | None = ("left2", "right1")
branch_labels: str | tuple[str, ...] | None = None
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_both (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_both")
