"""The shipped application's pipeline: what its workers call.

The counters (`counters/`) are re-exported here, with the errors that they raise and the storage directory.
What operators run is in `backfill/`, `reconcile/` and `queues/`, which workers do not load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestate.pipeline.counters import (
        JobOutcome,
        advance_stage,
        claim_coordinator_enqueue,
        finish_job,
        increment_completed,
        increment_failed,
        initialize_stage,
        should_trigger_coordinator,
    )
    from pipestate.pipeline.stages import (
        STAGES,
        InvalidJobs,
        StageNotStarted,
        StageRunning,
        UnknownSite,
        UnknownStage,
        WrongTransition,
    )
    from pipestate.pipeline.storage import open_storage

__all__ = [
    "STAGES",
    "InvalidJobs",
    "JobOutcome",
    "StageNotStarted",
    "StageRunning",
    "UnknownSite",
    "UnknownStage",
    "WrongTransition",
    "advance_stage",
    "claim_coordinator_enqueue",
    "finish_job",
    "increment_completed",
    "increment_failed",
    "initialize_stage",
    "open_storage",
    "should_trigger_coordinator",
]

_STAGES = (
    "STAGES",
    "InvalidJobs",
    "StageNotStarted",
    "StageRunning",
    "UnknownSite",
    "UnknownStage",
    "WrongTransition",
)


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: the commands of this package start without SQLAlchemy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "stages" if name in _STAGES else "storage" if name == "open_storage" else "counters"
    return getattr(import_module(f"{__name__}.{home}"), name)
