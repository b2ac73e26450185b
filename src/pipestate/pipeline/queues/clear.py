"""Clear the queues of jobs that can never end.

1. `plan` lists them, and SKIPPED the jobs of other functions. It only reads; a dry run ends here.
2. `apply` exports those jobs into a file and syncs it, then deletes each job that still matches its export.

Every job is on disk before the first deletion. Jobs that appear or change after the plan wait for the next run.
The file has one job per line, as JSON: `id`, `queue`, `registry` (its state), `dangling`, and the queue's data.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, Exported, Obstacle, Queues

LINES_AT_ONCE = 1000


def default_file(now: datetime) -> Path:
    return Path(f"pipestate-cleared-{now:%Y%m%dT%H%M%SZ}.jsonl")


@contextmanager
def appending(file: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that appends whole lines; at the end of the block they are synced to disk.

    Tracebacks and arguments may contain secrets, so only the owner can read a new file.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

        def write(data: bytes) -> None:
            # One call writes a page if the system accepts it, so two writers of a file do not mix lines.
            while data:
                data = data[os.write(descriptor, data) :]

        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                write(b"\n")  # ends the partial line of a run that was killed while writing
            yield write
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        directory = os.open(file.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that a new file survives a crash
        finally:
            os.close(directory)
    except OSError as error:
        raise ConfigError(
            f"cannot write {file}: {error.strerror}; nothing was deleted, name another file with --export"
        ) from error


def plan(queues: Queues, obstacles: tuple[Obstacle, ...], also: Collection[str] = ()) -> Plan[Blocked]:
    """List the blocking jobs, in the order of the obstacles; `also` names other functions to delete."""
    return Plan([_decide(job, also) for job in queues.blocked(obstacles)])


def _decide(job: Blocked, also: Collection[str]) -> Result[Blocked]:
    if job.other is None:
        return Result(job, SubjectOutcome.DELETED)
    if job.other in also:
        named = replace(job, obstacle=replace(job.obstacle, function=job.other), other=None)
        return Result(named, SubjectOutcome.DELETED)
    return Result(job, SubjectOutcome.SKIPPED)


def apply(
    queues: Queues,
    plan: Plan[Blocked],
    file: Path,
    *,
    on_exported: Callable[[int], None] = lambda number: None,
    on_progress: Progress = no_progress,
) -> list[Result[Blocked]]:
    """Export the planned jobs to the file, then delete them; `on_exported` receives the number of jobs."""
    jobs = [result.subject for result in plan.to_do]
    read = export(queues, jobs, file, lambda done, total: on_progress(done // 2, total))
    exported = [each for each in read if isinstance(each, Exported)]
    on_exported(len(exported))
    deleted = queues.clear(exported)
    results: list[Result[Blocked]] = []
    for job, each in zip(jobs, read, strict=True):
        results.append(Result(job, next(deleted) if isinstance(each, Exported) else each))
        on_progress((len(jobs) + len(results)) // 2, len(jobs))
    written = iter(results)
    return [next(written) if expected.outcome.done else expected for expected in plan.expected]


def export(
    queues: Queues, jobs: list[Blocked], file: Path, on_progress: Progress = no_progress
) -> list[Exported | SubjectOutcome]:
    """Append the jobs to the file and sync it; return the small proof of each job."""
    kept: list[Exported | SubjectOutcome] = []
    with appending(file) as write:
        waiting = queues.export(jobs)
        while page := list(islice(waiting, LINES_AT_ONCE)):
            write(b"".join(as_line(each) for each in page if isinstance(each, Exported)))
            kept += [replace(each, content={}) if isinstance(each, Exported) else each for each in page]
            on_progress(len(kept), len(jobs))
    return kept


def as_line(exported: Exported) -> bytes:
    """Render a job as a line of the file."""
    job = exported.job
    own = {
        "id": job.id,
        "queue": job.obstacle.queue,
        "registry": str(job.obstacle.state),
        "dangling": job.dangling,
    }
    return json.dumps({**own, **exported.content}).encode() + b"\n"
