"""The first of sales"""

from alembic import op

revision: str = "sales1"
down_revision: str | tuple[str, ...] | None = None
branch_labels: str | tuple[str, ...] | None = None
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_sales1 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_sales1")
