"""What goes behind the gate, and comes back on the way down."""

from pipestate import Contract

revision = "b2"
down_revision = "a1"

TABLES = []
COLUMNS = {}

if TABLES or COLUMNS:  # else the test has not said yet what goes
    contract = Contract("orders/ready", tables=TABLES, columns=COLUMNS)
    upgrade, downgrade = contract.upgrade, contract.downgrade
