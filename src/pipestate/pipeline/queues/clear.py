"""Clear the queues of jobs that can never end.

1. `plan` lists them. It only reads; a dry run ends here.
2. `apply` exports those jobs into a file and syncs it; then it deletes each job that is still as the file
   has it. Everything is on the disk before anything is deleted.

Jobs that appear after the plan are left for the next run, and so are jobs that changed since.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues.export_file import appending, as_line
from pipestate.pipeline.queues.port import Blocked, Exported, Obstacle, Queues
from pipestate.progress import Progress, untold

LINES_AT_ONCE = 1000


def plan(queues: Queues, obstacles: tuple[Obstacle, ...]) -> Plan[Blocked]:
    """List the jobs to delete, in the order of the obstacles."""
    return Plan([Result(job, SubjectOutcome.DELETED) for job in queues.blocked(obstacles)])


def apply(
    queues: Queues,
    plan: Plan[Blocked],
    file: Path,
    *,
    on_exported: Callable[[int], None] = lambda number: None,
    on_progress: Progress = untold,
) -> list[Result[Blocked]]:
    """Export the planned jobs to the file, then delete them; `on_exported` is told how many it holds."""
    jobs = [result.subject for result in plan.to_do]
    read = export(queues, jobs, file, lambda done, total: on_progress(done // 2, total))
    exported = [each for each in read if isinstance(each, Exported)]
    on_exported(len(exported))
    deleted = _cleared(queues, exported, len(jobs), on_progress)
    return [
        Result(job, next(deleted) if isinstance(each, Exported) else each)
        for job, each in zip(jobs, read, strict=True)
    ]


def export(
    queues: Queues, jobs: list[Blocked], file: Path, on_progress: Progress = untold
) -> list[Exported | SubjectOutcome]:
    """Append the jobs to the file, and return when they are on the disk; of each, the proof that stays small."""
    kept: list[Exported | SubjectOutcome] = []
    with appending(file) as write:
        for page in _pages(queues.export(jobs)):
            write(b"".join(as_line(queues.format, each) for each in page if isinstance(each, Exported)))
            kept += [replace(each, content={}) if isinstance(each, Exported) else each for each in page]
            on_progress(len(kept), len(jobs))
    return kept


def _cleared(
    queues: Queues, exported: list[Exported], total: int, on_progress: Progress
) -> Iterator[SubjectOutcome]:
    for number, outcome in enumerate(queues.clear(exported), 1):
        on_progress((total + number) // 2, total)
        yield outcome


def _pages(items: Iterable[Exported | SubjectOutcome]) -> Iterator[list[Exported | SubjectOutcome]]:
    waiting = iter(items)
    while page := list(islice(waiting, LINES_AT_ONCE)):
        yield page
