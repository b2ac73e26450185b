"""The file that keeps cleared jobs: JSON lines, a job a line.

A line has the `format` of the queue that wrote it, the job's `id`, `queue`, `registry` (its state) and
`dangling`, then what that queue needs to bring it back, and a `sha256` of all that.
"""

import hashlib
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.port import Blocked, DamagedExport, Exported, Obstacle, Saved, State

DIGEST = "sha256"
OWN = ("format", "id", "queue", "registry", "dangling", DIGEST)


def default_file(now: datetime) -> Path:
    return Path(f"pipestate-cleared-{now:%Y%m%dT%H%M%SZ}.jsonl")


@contextmanager
def appending(file: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that appends whole lines; when the block ends, they are on the disk.

    Tracebacks and arguments may hold secrets: a new file is its owner's alone.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _end_line(descriptor)
            yield lambda data: _write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_directory(file)
    except OSError as error:
        raise ConfigError(
            f"cannot write {file}: {error.strerror}; nothing was deleted, name another file with --export"
        ) from error


def as_line(format: str, exported: Exported) -> bytes:
    """Write a job as a line of the file."""
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
    """Read the jobs of a file, the last line of each id: a run that was killed may have written it twice.

    Raises DamagedExport with the line where the file is not what `queues clear` wrote for this queue.
    """
    saved: dict[tuple[str, str, str], Saved] = {}
    for where, line in _lines(file):
        fields = _fields(where, line, format)
        job = _job(where, fields)
        content = {name: value for name, value in fields.items() if name not in OWN}
        place = job.obstacle
        saved[job.id, place.queue, place.state] = Saved(job, content, where)
    if not saved:
        raise DamagedExport(str(file), "it holds no job")
    return list(saved.values())


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                yield f"{file}:{number}", line
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}; give the file that queues clear wrote"
        ) from error


def _fields(where: str, line: bytes, format: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedExport(
            where, "this is no line of JSON (a run that was killed leaves half a line)"
        ) from error
    written_by = fields.get("format") if isinstance(fields, dict) else None
    if written_by != format:
        other = (
            f"this was written as {reprlib.repr(written_by)}, not as {format!r}"
            if written_by
            else "this is no exported job"
        )
        raise DamagedExport(where, other)
    if fields.get(DIGEST) != _digest({name: value for name, value in fields.items() if name != DIGEST}):
        raise DamagedExport(where, "this job is not as it was exported: its sha256 does not fit")
    return dict(fields)


def _job(where: str, fields: Mapping[str, Any]) -> Blocked:
    try:
        function = str(fields.get("function") or "").rpartition(".")[2]
        obstacle = Obstacle(str(fields["queue"]), State(fields["registry"]), function)
        return Blocked(str(fields["id"]), obstacle, bool(fields["dangling"]))
    except (KeyError, ValueError) as error:
        raise DamagedExport(where, f"this job has no usable {error}") from error


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _write(descriptor: int, data: bytes) -> None:
    """Write a page in one call where the system takes it, so that two writers of a file do not mix lines."""
    while data:
        data = data[os.write(descriptor, data) :]


def _end_line(descriptor: int) -> None:
    """End the half line that a run which was killed while it wrote has left."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


def _sync_directory(file: Path) -> None:
    """Sync the directory: only then does a new file survive a crash."""
    descriptor = os.open(file.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
