"""The gate of a revision: `with gate("orders/readiness", lock=["order_log"]): ...`."""

from pipestate.gate.closed import GateClosed
from pipestate.gate.context import gate, require

__all__ = ["GateClosed", "gate", "require"]
