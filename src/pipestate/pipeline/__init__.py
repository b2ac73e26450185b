"""Pipeline of the shipped application: the functions that its workers call.

This package re-exports the counters (`counters/`), their errors, and the storage directory. The operators'
tools are in `backfill/`, `reconcile/` and `queues/`; workers do not load them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestate.pipeline.counters import (
        JobOutcome,
        claim_coordinator_enqueue,
        finish_job,
        increment_completed,
        increment_failed,
        should_trigger_coordinator,
    )
    from pipestate.pipeline.counters.start import advance_stage, initialize_stage
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

_HOMES = {
    "JobOutcome": "counters",
    "advance_stage": "counters.start",
    "initialize_stage": "counters.start",
    "open_storage": "storage",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so the commands of this package start without SQLAlchemy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "counters" if name.islower() else "stages")
    return getattr(import_module(f"{__name__}.{home}"), name)
