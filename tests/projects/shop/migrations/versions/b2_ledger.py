"""The ledger"""

from pipestate.ddl import install_ledger
from pipestate.ddl import remove_ledger

revision = "b2"
down_revision = "a1"

upgrade, downgrade = install_ledger, remove_ledger
