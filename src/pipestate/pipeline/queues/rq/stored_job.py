"""A job as Redis holds it, byte for byte, and the line of JSON that keeps it."""

import base64
import hashlib
import json
import reprlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from pipestate.pipeline.queues.rq.keys import keys_of
from pipestate.pipeline.queues.rq.registries import decompressed
from pipestate.pipeline.queues.rq.stored_call import Call, Opaque, load_plain, read_call

if TYPE_CHECKING:
    from redis import Redis

    from pipestate.pipeline.queues.clear import Planned

TIMES = ("created_at", "enqueued_at", "started_at", "ended_at")


@dataclass(frozen=True, slots=True)
class RawJob:
    """Its hash, its results, its place in the registry, whom it waits for and who waits for it."""

    fields: Mapping[bytes, bytes]
    results: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    score: float | None
    dependencies: tuple[str, ...]
    dependents: tuple[str, ...]

    def text(self, field: str) -> str | None:
        return self.fields.get(field.encode(), b"").decode(errors="replace") or None

    @property
    def call(self) -> Call | None:
        return read_call(decompressed(self.fields.get(b"data", b"")))

    @property
    def digest(self) -> str:
        """Of the values in the order of the fields; the script that deletes makes the same one."""
        values = self.fields.values()
        return hashlib.sha1(b"".join(b"%d:%s" % (len(value), value) for value in values)).hexdigest()

    @property
    def error(self) -> str | None:
        """What the last result tells; RQ before 2 kept it in the hash."""
        for _id, entry in reversed(self.results):
            if b"exc_string" in entry:
                return _inflated(base64.b64decode(entry[b"exc_string"]))
        kept = self.fields.get(b"exc_info")
        return _inflated(kept) if kept else None


def read_jobs(redis: "Redis", page: "Sequence[Planned]") -> Iterator[RawJob]:
    """All of the page in one round trip, without changing anything."""
    with redis.pipeline(transaction=False) as pipeline:
        for each in page:
            keys = keys_of(each.id)
            pipeline.hgetall(keys.job)
            pipeline.xrange(keys.results)
            pipeline.zscore(each.registry.key, each.id)
            pipeline.smembers(keys.dependencies)
            pipeline.smembers(keys.dependents)
        answers = iter(pipeline.execute())
    for _ in page:
        fields, results, score = next(answers), next(answers), next(answers)
        yield RawJob(fields, results, score, _ids(next(answers)), _ids(next(answers)))


def as_line(planned: "Planned", job: RawJob) -> bytes:
    """For people what the job was about; under data, results and score all that brings it back."""
    call = job.call
    line = {
        "id": planned.id,
        "queue": planned.registry.queue,
        "registry": planned.registry.state,
        "dangling": planned.dangling,
        "origin": job.text("origin"),
        "function": call.function if call else None,
        "args": as_json(call.args) if call else None,
        "kwargs": as_json(call.kwargs) if call else None,
        "status": job.text("status"),
        **{name: job.text(name) for name in TIMES},
        "description": job.text("description"),
        "meta": _meta(job.fields.get(b"meta")),
        "exc_info": job.error,
        "dependency_ids": job.dependencies,
        "dependent_ids": job.dependents,
        "score": None if job.score is None else str(job.score),
        "data": {_text(name): base64.b64encode(value).decode() for name, value in job.fields.items()},
        "results": [
            [_text(id_), {_text(k): _text(v) for k, v in entry.items()}] for id_, entry in job.results
        ],
    }
    return json.dumps(line).encode() + b"\n"


def as_json(value: Any) -> Any:
    """What JSON can hold; times and numbers as text, an object of the application as its name.

    >>> as_json((1, {"page": b"x"}, float("nan")))
    "(1, {'page': b'x'}, nan)"
    """
    try:
        return json.loads(json.dumps(value, default=_plain, allow_nan=False))
    except Exception:  # circles, keys that are no text, objects that a pickle left half made
        return _shortened(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return list(value)
    return repr(value) if isinstance(value, Opaque | bytes | bytearray) else str(value)


def _shortened(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except Exception:
        return "<not to be shown>"


def _meta(data: bytes | None) -> Any:
    try:
        return as_json(load_plain(data)) if data else {}
    except Exception:  # a pickle can raise anything
        return None


def _inflated(data: bytes) -> str:
    try:
        return zlib.decompress(data).decode(errors="replace")
    except zlib.error:
        return data.decode(errors="replace")


def _ids(members: set[bytes]) -> tuple[str, ...]:
    return tuple(sorted(_text(each) for each in members))


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
