"""Further left"""

from alembic import op

revision: str = "left2"
down_revision: str | tuple[str, ...] | None = "left1"
branch_labels: str | tuple[str, ...] | None = None
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_left2 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_left2")
