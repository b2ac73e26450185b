"""What must not happen before its gate is open.

Revision ID: c3
Revises: b2
"""

from alembic import op

from pipestate.gate import gate

revision = "c3"
down_revision = "b2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with gate(
        "orders/ready",
        lock=["old_orders"],
        recheck=["quiet"],
        must_pass=["quiet", "approved"],
        revision=revision,
    ):
        op.execute("DROP TABLE old_orders")


def downgrade() -> None:
    op.execute("CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp NOT NULL, note text)")
