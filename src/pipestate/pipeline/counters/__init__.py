"""Count finished jobs, claim the single coordinator that follows a stage, and start stages.

Workers import this package, so it loads only SQLAlchemy's connection and the SQL of the counters.
"""

from pipestate.pipeline.counters.finish import (
    claim_coordinator_enqueue,
    finish_job,
    increment_completed,
    increment_failed,
    should_trigger_coordinator,
)
from pipestate.pipeline.counters.outcome import JobOutcome
from pipestate.pipeline.counters.start import advance_stage, initialize_stage

__all__ = [
    "JobOutcome",
    "advance_stage",
    "claim_coordinator_enqueue",
    "finish_job",
    "increment_completed",
    "increment_failed",
    "initialize_stage",
    "should_trigger_coordinator",
]
