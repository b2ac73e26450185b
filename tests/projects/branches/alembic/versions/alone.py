"""On its own, after the left"""

from alembic import op

revision: str = "alone"
down_revision: str | tuple[str, ...] | None = None
branch_labels: str | tuple[str, ...] | None = None
depends_on: str | tuple[str, ...] | None = "left"


def upgrade() -> None:
    op.execute("CREATE TABLE t_alone (n integer)")


def downgrade() -> None:
    op.execute("DROP TABLE t_alone")
