"""Restore jobs that `queues clear` deleted, from its export file.

1. `plan` reads the whole file and checks which of its jobs exist again. It only reads. A damaged file, or a
   file of another queue, is refused here, before the first write.
2. `apply` restores the other jobs exactly. It skips a job that exists again, so a second run changes
   nothing.
"""

from pathlib import Path

from pipestate.core.progress import Progress, no_progress
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues.clear import read_saved
from pipestate.pipeline.queues.port import Queues, Saved


def plan(queues: Queues, file: Path) -> Plan[Saved]:
    """Return the expected outcome of each job in the file."""
    saved = read_saved(file, queues.format)
    return Plan([Result(job, outcome) for job, outcome in zip(saved, queues.check(saved), strict=True)])


def apply(queues: Queues, plan: Plan[Saved], *, on_progress: Progress = no_progress) -> list[Result[Saved]]:
    """Restore the jobs that were missing at planning time."""
    wanted = [result.subject for result in plan.to_do]
    outcomes: list[SubjectOutcome] = []
    for outcome in queues.restore(wanted):
        outcomes.append(outcome)
        on_progress(len(outcomes), len(wanted))
    came = iter(outcomes)
    return [Result(result.subject, next(came)) if result.outcome.done else result for result in plan.expected]
