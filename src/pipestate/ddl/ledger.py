"""The ledger and the registry of created objects, as revisions install and remove them."""

from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def install_ledger() -> None:
    """Create the ledger where it is missing, add what an older one lacks; repeated, it does nothing."""
    engine().install_ledger()


def install_objects() -> None:
    """Create the part that a chain with a registry needs from its first revision on."""
    engine().install_objects()


def remove_ledger() -> None:
    """Drop a ledger that holds no row; leave one that does, and say so.

    A chain with a registry keeps that until `remove_objects`.
    """
    require_gate("remove_ledger()")
    engine().remove_ledger()


def remove_objects() -> None:
    """Drop the registry, and the schema where nothing else is in it."""
    require_gate("remove_objects()")
    engine().remove_objects()
