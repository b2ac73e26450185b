"""Notes, on sqlite"""

from alembic import op

revision, down_revision = "n1", None


def upgrade() -> None:
    op.execute("CREATE TABLE old_notes (id integer PRIMARY KEY AUTOINCREMENT, moved_to integer)")


def downgrade() -> None:
    op.execute("DROP TABLE old_notes")
