"""Billing needs the core"""

from alembic import op

revision: str = "bill1"
down_revision: str | tuple[str, ...] | None = None
branch_labels: str | tuple[str, ...] | None = ("billing",)
depends_on: str | tuple[str, ...] | None = "core"


def upgrade() -> None:
    op.execute("CREATE TABLE t_bill1 (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_bill1")
