"""pipestate: runbooks that run, and destructive migrations that wait for their gate."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestate.contract import Contract as Contract

__version__ = version("pipestate")


def __getattr__(name: str) -> Any:
    """Import `Contract` when it is asked for: it needs Alembic, and most commands do not."""
    if name != "Contract":
        raise AttributeError(f"module 'pipestate' has no attribute {name!r}")
    from pipestate.contract import Contract

    return Contract
