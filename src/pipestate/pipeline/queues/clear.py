"""Clear queues, restore cleared jobs, and their export file: JSON lines, one job per line.

A line has the `format` of the queue that wrote it, the job's `id`, `queue`, `registry` (its state) and
`dangling`. The queue's own data for a restore follow, and a `sha256` of all fields.
"""

import hashlib
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues.port import Blocked, DamagedExport, Exported, Obstacle, Queues, Saved, State

DIGEST = "sha256"
OWN = ("format", "id", "queue", "registry", "dangling", DIGEST)


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


def as_line(format: str, exported: Exported) -> bytes:
    """Render a job as a line of the file."""
    job = exported.job
    fields = {
        "format": format,
        "id": job.id,
        "queue": job.obstacle.queue,
        "registry": str(job.obstacle.state),
        "dangling": job.dangling,
        **exported.content,
    }
    return json.dumps({**fields, DIGEST: _digest(fields)}).encode() + b"\n"


def read_saved(file: Path, format: str) -> list[Saved]:
    """Read the jobs of a file; the last line of each id wins, because a killed run may repeat it.

    Raise DamagedExport with the line number if `queues clear` did not write the file for this queue.
    """
    try:
        with file.open("rb") as opened:
            lines = opened.readlines()
    except OSError as error:
        message = f"cannot read {file}: {error.strerror}; give the file that queues clear wrote"
        raise ConfigError(message) from error
    saved: dict[tuple[str, str, str], Saved] = {}
    for number, line in enumerate(lines, 1):
        each = _saved(f"{file}:{number}", line, format)
        saved[each.job.id, each.job.obstacle.queue, each.job.obstacle.state] = each
    if not saved:
        raise DamagedExport(str(file), "it holds no job")
    return list(saved.values())


def _saved(where: str, line: bytes, format: str) -> Saved:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = "this is no line of JSON (a run that was killed leaves half a line)"
        raise DamagedExport(where, what) from error
    written_by = fields.get("format") if isinstance(fields, dict) else None
    if not written_by:
        raise DamagedExport(where, "this is no exported job")
    if written_by != format:
        raise DamagedExport(where, f"this was written as {reprlib.repr(written_by)}, not as {format!r}")
    if fields.get(DIGEST) != _digest({name: value for name, value in fields.items() if name != DIGEST}):
        raise DamagedExport(where, "this job is not as it was exported: its sha256 does not fit")
    try:
        function = str(fields.get("function") or "").rpartition(".")[2]
        obstacle = Obstacle(str(fields["queue"]), State(fields["registry"]), function)
        job = Blocked(str(fields["id"]), obstacle, bool(fields["dangling"]))
    except (KeyError, ValueError) as error:
        raise DamagedExport(where, f"this job has no usable {error}") from error
    return Saved(job, {name: value for name, value in fields.items() if name not in OWN}, where)


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


# Clear the queues of jobs that can never end.
# 1. `plan` lists them. It only reads; a dry run ends here.
# 2. `apply` exports those jobs into a file and syncs it, then deletes each job that still matches its export.
# Every job is on disk before the first deletion. Jobs that appear or change after the plan wait for the next
# run.


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
    return results


def export(
    queues: Queues, jobs: list[Blocked], file: Path, on_progress: Progress = no_progress
) -> list[Exported | SubjectOutcome]:
    """Append the jobs to the file and sync it; return the small proof of each job."""
    kept: list[Exported | SubjectOutcome] = []
    with appending(file) as write:
        waiting = queues.export(jobs)
        while page := list(islice(waiting, LINES_AT_ONCE)):
            write(b"".join(as_line(queues.format, each) for each in page if isinstance(each, Exported)))
            kept += [replace(each, content={}) if isinstance(each, Exported) else each for each in page]
            on_progress(len(kept), len(jobs))
    return kept


# Restore jobs that `queues clear` deleted, from its export file.
# 1. `plan_restore` reads the whole file and checks which of its jobs exist again. It only reads. A damaged
#    file, or a file of another queue, is refused here, before the first write.
# 2. `restore` restores the other jobs exactly. It skips a job that exists again, so a second run changes
#    nothing.


def plan_restore(queues: Queues, file: Path) -> Plan[Saved]:
    """Return the expected outcome of each job in the file."""
    saved = read_saved(file, queues.format)
    return Plan([Result(job, outcome) for job, outcome in zip(saved, queues.check(saved), strict=True)])


def restore(queues: Queues, plan: Plan[Saved], *, on_progress: Progress = no_progress) -> list[Result[Saved]]:
    """Restore the jobs that were missing at planning time."""
    wanted = [result.subject for result in plan.to_do]
    outcomes: list[SubjectOutcome] = []
    for outcome in queues.restore(wanted):
        outcomes.append(outcome)
        on_progress(len(outcomes), len(wanted))
    came = iter(outcomes)
    return [Result(result.subject, next(came)) if result.outcome.done else result for result in plan.expected]
