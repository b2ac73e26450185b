"""Drop the old members"""

import acme_models
from alembic import op
from pipestate.gate import gate as passed

PHASE = "members/moved"
revision = "m2"
down_revision = ["m1"]


def upgrade() -> None:
    with passed(PHASE, lock=acme_models.TABLES, revision=revision):
        op.drop_table("members")
