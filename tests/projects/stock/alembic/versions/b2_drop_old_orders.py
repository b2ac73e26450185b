"""Drop the old orders.

They have been copied since 2025.
"""

from alembic import op

from pipestate.gate import gate

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    with gate("orders/ready", lock=["t_a1"], revision=revision):
        op.execute("DROP TABLE t_a1")


def downgrade() -> None:
    op.execute("CREATE TABLE t_a1 (n integer)")
