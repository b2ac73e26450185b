"""Job data in Redis, byte for byte, and its JSON form in an export file."""

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipestate.pipeline.queues.port import Blocked, DamagedExport, Saved
from pipestate.pipeline.queues.rq.calls import FunctionCall, decompressed, read_call
from pipestate.pipeline.queues.rq.connection import keys_of, pages, registry_key, text
from pipestate.pipeline.stages import truncate

if TYPE_CHECKING:
    from redis import Redis


# Keys of a job that can expire, by the names of Keys.
EXPIRING = ("job", "results", "dependencies", "dependents")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """Hash, results, registry score, dependencies and dependents of a job.

    `expires_at` has the expiry time of each expiring key, in milliseconds since 1970.
    """

    fields: Mapping[bytes, bytes]
    results: Sequence[tuple[bytes, Mapping[bytes, bytes]]] = ()
    score: float | None = None
    dependencies: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    expires_at: Mapping[str, int] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Decode a field of the hash for display; None if it is missing or empty."""
        return self.fields.get(name.encode(), b"").decode(errors="replace") or None

    @property
    def call(self) -> FunctionCall | None:
        return read_call(decompressed(self.fields.get(b"data", b"")))

    @property
    def group(self) -> str:
        return text(self.fields.get(b"group_id", b""))

    @property
    def digest(self) -> str:
        """Return a digest of the values in field order; the deleting script computes the same one."""
        values = self.fields.values()
        return hashlib.sha1(b"".join(b"%d:%s" % (len(value), value) for value in values)).hexdigest()

    @property
    def error(self) -> str | None:
        """Return the traceback of the last result; RQ before 2 kept it in the hash."""
        kept = self.fields.get(b"exc_info")
        for _id, entry in reversed(self.results):
            if b"exc_string" in entry:
                kept = entry[b"exc_string"]
                with suppress(ValueError):
                    kept = base64.b64decode(kept)
                break
        return decompressed(kept).decode(errors="replace") if kept else None


def read_jobs(redis: "Redis", jobs: Sequence[Blocked]) -> Iterator[StoredJob]:
    """Read each job completely, one page per round trip, without changes."""
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for job in page:
                keys = keys_of(job.id)
                pipeline.hgetall(keys.job)
                pipeline.xrange(keys.results)
                pipeline.zscore(registry_key(job.obstacle), job.id)
                pipeline.smembers(keys.dependencies)
                pipeline.smembers(keys.dependents)
                for name in EXPIRING:
                    pipeline.pttl(getattr(keys, name))
            (seconds, microseconds), *rows = pipeline.execute()
        now = seconds * 1000 + microseconds // 1000
        answers = iter(rows)
        for _ in page:
            fields, results, score, above, below = (next(answers) for _ in range(5))
            lifetimes = {name: next(answers) for name in EXPIRING}
            ends = {name: now + left for name, left in lifetimes.items() if left >= 0}
            yield StoredJob(fields, results, score, _ids(above), _ids(below), ends)


def _ids(members: set[bytes]) -> tuple[str, ...]:
    return tuple(sorted(text(each) for each in members))


# Stored job as JSON, and back: the content of an export file.
# Bytes that must be restored exactly are base64, or text with undecodable bytes escaped as in Python's file
# names. Function, arguments, times and traceback are for readers only; a restore ignores them.


FORMAT = "rq/1"
TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")


def as_content(job: StoredJob) -> dict[str, Any]:
    """Render a job as JSON: readable details, and the fields `data` to `expires_at` for a restore."""
    call = job.call
    return {
        "origin": job.text("origin"),
        "function": call.function if call else None,
        "args": as_json(call.args) if call else None,
        "kwargs": as_json(call.kwargs) if call else None,
        "status": job.text("status"),
        **{name: job.text(name) for name in TIMES},
        "description": job.text("description"),
        "exc_info": job.error,
        "dependency_ids": list(job.dependencies),
        "dependent_ids": list(job.dependents),
        "score": None if job.score is None else str(job.score),
        "data": {text(name): base64.b64encode(value).decode() for name, value in job.fields.items()},
        "results": [[text(id_), {text(k): text(v) for k, v in entry.items()}] for id_, entry in job.results],
        "expires_at": dict(job.expires_at),
    }


def read_content(saved: Saved) -> StoredJob:
    """Rebuild the stored job; raise DamagedExport for content that `as_content` cannot produce.

    >>> job = StoredJob({b"data": b"\\x80"}, [(b"1-0", {b"type": b"2"})], 1.5, ("a",), (), {"job": 7})
    >>> read_content(Saved(None, as_content(job), "kept.jsonl:1")) == job
    True
    """
    content = saved.content
    try:
        return StoredJob(
            {_bytes(name): base64.b64decode(value, validate=True) for name, value in content["data"].items()},
            [
                (_bytes(id_), {_bytes(name): _bytes(value) for name, value in entry.items()})
                for id_, entry in content["results"]
            ],
            _score(content["score"]),
            tuple(map(_id, content["dependency_ids"])),
            tuple(map(_id, content["dependent_ids"])),
            {name: int(content["expires_at"][name]) for name in EXPIRING if name in content["expires_at"]},
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {truncate(str(error), 100)}"
        raise DamagedExport(saved.where, f"this job cannot be read ({reason})") from error


def as_json(value: Any) -> Any:
    """Return a JSON-compatible value for readers; other values as their text, without cycles or NaN.

    >>> as_json((1, {"page": b"x"}))
    [1, {'page': "b'x'"}]
    """
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except Exception:  # cycles, keys other than text, objects half built by a pickle
        return "<not to be shown>"


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogateescape")


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no id")
    return value


def _score(value: str) -> float:
    score = float(value)
    if math.isnan(score):
        raise ValueError("a score that is no number")
    return score
