"""The log and the old status go"""

from pipestate import Contract

revision = "c3"
down_revision = "b2"

contract = Contract(
    "shop/ready", tables=["order_log"], columns={"orders": ["old_status"]}, recheck=["approved"]
)
upgrade, downgrade = contract.upgrade, contract.downgrade
