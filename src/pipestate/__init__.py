"""pipestate: runbooks that run, and destructive migrations that wait for their gate."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestate.migration.contract import Contract as Contract

# A constant, which the build reads from here: reading the installed metadata would take a third of `--version`.
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import `Contract` on its first use: it needs Alembic, and most commands do not."""
    if name != "Contract":
        raise AttributeError(f"module 'pipestate' has no attribute {name!r}")
    from pipestate.migration.contract import Contract as Contract

    return Contract
