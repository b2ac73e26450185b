"""The core"""

from alembic import op

revision: str = "core1"
down_revision: str | tuple[str, ...] | None = None
branch_labels: str | tuple[str, ...] | None = ("core",)
depends_on: str | tuple[str, ...] | None = None


def upgrade() -> None:
    op.execute("CREATE TABLE t_core1 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_core1")
