"""The file that keeps what is cleared: JSON lines, a job a line, on the disk before anything is deleted."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.rq.registries import Kept, pages
from pipestate.pipeline.queues.rq.stored_job import RawJob, as_line, read_jobs
from pipestate.progress import Progress, untold

if TYPE_CHECKING:
    from redis import Redis

    from pipestate.pipeline.queues.clear import Planned


@dataclass(frozen=True, slots=True)
class Exported:
    """A job that is in the file, and how to tell that it has not changed since."""

    planned: "Planned"
    fields: tuple[bytes, ...]
    digest: str
    group: str


@dataclass(frozen=True, slots=True)
class Export:
    """What is in the file; and of the plan, what is no longer as planned, and what is no longer there."""

    jobs: tuple[Exported, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]


def default_file(now: datetime) -> Path:
    return Path(f"pipestate-cleared-{now:%Y%m%dT%H%M%SZ}.jsonl")


def export(redis: "Redis", plan: "tuple[Planned, ...]", file: Path, on_progress: Progress = untold) -> Export:
    """Append the jobs of the plan to the file, and return when they are on the disk."""
    jobs: list[Exported] = []
    changed: list[str] = []
    gone: list[str] = []
    with _appending(file) as write:
        for page in pages(plan):
            lines = []
            for planned, raw in zip(page, read_jobs(redis, page), strict=True):
                if not raw.fields and raw.score is None:
                    gone.append(planned.id)
                elif _as_planned(planned, raw):
                    lines.append(as_line(planned, raw))
                    jobs.append(Exported(planned, tuple(raw.fields), raw.digest, raw.text("group_id") or ""))
                else:
                    changed.append(planned.id)
            write(b"".join(lines))
            on_progress(len(jobs), len(plan))
    return Export(tuple(jobs), tuple(changed), tuple(gone))


def _as_planned(planned: "Planned", raw: RawJob) -> bool:
    kept = Kept(planned.id, raw.call, b"data" not in raw.fields, raw.text("status") or "")
    return kept.gone == planned.dangling and planned.registry.meant(kept)


@contextmanager
def _appending(file: Path) -> Iterator[Callable[[bytes], None]]:
    """Tracebacks and arguments may hold secrets: a new file is its owner's."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _end_line(descriptor)
            yield lambda data: _write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_name(file)
    except OSError as error:
        raise ConfigError(
            f"cannot write {file}: {error.strerror}; nothing was deleted, name another file with --export"
        ) from error


def _write(descriptor: int, data: bytes) -> None:
    """A page in one call where the system takes it, so that two writers of a file do not mix lines."""
    while data:
        data = data[os.write(descriptor, data) :]


def _end_line(descriptor: int) -> None:
    """A run that was killed while it wrote has left half a line."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


def _sync_name(file: Path) -> None:
    """A new file is safe when its directory is."""
    descriptor = os.open(file.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
