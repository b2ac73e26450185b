"""The ledger of pipestate."""

from pipestate.ddl import install_ledger
from pipestate.ddl import remove_ledger

revision = "b2"
down_revision = "a1"


def upgrade():
    install_ledger()


def downgrade():
    remove_ledger()
