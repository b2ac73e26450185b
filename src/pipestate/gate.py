"""The gate of a revision: `with gate("orders/readiness", lock=["order_log"]): ...`."""

from pipestate.migration.gate import GateClosed, gate, require

__all__ = ["GateClosed", "gate", "require"]
