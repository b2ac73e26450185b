"""A column of the log, in a statement that commits by itself"""

from alembic import op

revision = "g7"
down_revision = "f6"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("ALTER TABLE order_log ADD COLUMN g7 integer")


def downgrade() -> None:
    pass
