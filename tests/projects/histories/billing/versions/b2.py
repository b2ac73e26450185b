"""The table of billing goes"""

from pipestate import Contract

revision, down_revision = "b2", "b1"

contract = Contract("billing/moved", tables=["invoices"], recheck=["all-moved"])
upgrade, downgrade = contract.upgrade, contract.downgrade
