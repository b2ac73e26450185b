"""The gate of a revision: `with gate("orders/readiness", lock=["order_log"]): ...`."""

from pipestate.migration.closed import GateClosed
from pipestate.migration.gate import gate, require

__all__ = ["GateClosed", "gate", "require"]
