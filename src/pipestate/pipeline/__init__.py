"""The pipeline at work: what workers and operators call."""

from pipestate.pipeline.counters import (
    JobOutcome,
    claim_coordinator_enqueue,
    finish_job,
    increment_completed,
    increment_failed,
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
from pipestate.pipeline.transitions import advance_stage, initialize_stage

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
    "should_trigger_coordinator",
]
