"""The same, so that nobody waits for long"""

from alembic import op

revision = "b2"
down_revision = "a1"


def upgrade() -> None:
    op.execute("SET lock_timeout = '1s'")
    op.execute("SET statement_timeout = '5s'")
    op.execute("ALTER TABLE orders ADD COLUMN IF NOT EXISTS state text")
    with op.get_context().autocommit_block():
        op.create_index(
            "ix_orders_note", "orders", ["note"], postgresql_concurrently=True, if_not_exists=True
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index("ix_orders_note", "orders", postgresql_concurrently=True, if_exists=True)
    op.drop_column("orders", "state")
