"""Old notes go, on postgresql"""

from pipestate import Contract

revision, down_revision = "n2", "n1"

contract = Contract("notes/moved", tables=["old_notes"], recheck=["all-moved"])
upgrade, downgrade = contract.upgrade, contract.downgrade
