"""The contract waits on a branch of its own.

Revision ID: c3
Revises: b2
"""

from pipestate import Contract

revision = "c3"
down_revision = "b2"
branch_labels = ("contract",)
depends_on = None

contract = Contract("orders/ready", tables=["old_orders"], must_pass=["approved"])
upgrade, downgrade = contract.upgrade, contract.downgrade
