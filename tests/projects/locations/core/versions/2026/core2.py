"""More of the core"""

from alembic import op

revision: str = "core2"
down_revision: str | tuple[str, ...] | None = "core1"
branch_labels: str | tuple[str, ...] | None = None
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_core2 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_core2")
