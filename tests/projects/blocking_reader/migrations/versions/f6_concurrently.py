"""It waits for readers, and stops nobody"""

from alembic import op

revision = "f6"
down_revision = "e5"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY ix_orders_note")


def downgrade() -> None:
    pass
