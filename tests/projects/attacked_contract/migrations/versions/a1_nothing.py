"""The ledger; the schema is each test's own."""

from pipestate.ddl import install_ledger
from pipestate.ddl import remove_ledger

revision = "a1"
down_revision = None

upgrade, downgrade = install_ledger, remove_ledger
