"""Bring back jobs that `queues clear` deleted, from the file that it wrote.

1. `plan` reads the whole file and asks the queue which of its jobs are there again. It only reads; a file
   that is damaged, or that is another queue's, is refused here, before anything is written.
2. `apply` restores the others exactly as they were. A job that has come back meanwhile is left alone, so
   that a second run does nothing.
"""

from pathlib import Path

from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues.export_file import read_saved
from pipestate.pipeline.queues.port import Queues, Saved
from pipestate.progress import Progress, untold


def plan(queues: Queues, file: Path) -> Plan[Saved]:
    """Say what would become of each job of the file."""
    saved = read_saved(file, queues.format)
    return Plan([Result(job, outcome) for job, outcome in zip(saved, queues.check(saved), strict=True)])


def apply(queues: Queues, plan: Plan[Saved], *, on_progress: Progress = untold) -> list[Result[Saved]]:
    """Restore the jobs that were not there when it was planned."""
    wanted = [result.subject for result in plan.to_do]
    outcomes: list[SubjectOutcome] = []
    for outcome in queues.restore(wanted):
        outcomes.append(outcome)
        on_progress(len(outcomes), len(wanted))
    came = iter(outcomes)
    return [Result(result.subject, next(came)) if result.outcome.done else result for result in plan.expected]
