"""The tables of the application.

Revision ID: a1
Revises:
"""

from alembic import op

from pipestate.ddl import install_ledger

revision = "a1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    install_ledger()
    op.execute("CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp NOT NULL, note text)")
    op.execute("CREATE TABLE approvals (what text, revoked_at timestamp)")


def downgrade() -> None:
    op.execute("DROP TABLE approvals")
    op.execute("DROP TABLE old_orders")
