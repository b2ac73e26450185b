"""The same backfill, run by the migrations."""

from pipestate import backfill

revision = "c3"
down_revision = "b2"


def upgrade() -> None:
    backfill.run("orders/state")


def downgrade() -> None:
    pass
