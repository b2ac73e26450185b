"""The table of stock goes"""

from pipestate import Contract

revision, down_revision = "s2", "s1"

contract = Contract("stock/moved", tables=["shelves"], recheck=["all-moved"])
upgrade, downgrade = contract.upgrade, contract.downgrade
