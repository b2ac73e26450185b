"""A job as Redis holds it, byte for byte."""

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.port import Blocked
from pipestate.pipeline.queues.rq.connection import pages, text
from pipestate.pipeline.queues.rq.function_call import FunctionCall, read_call
from pipestate.pipeline.queues.rq.keys import keys_of, registry_key
from pipestate.pipeline.queues.rq.registries import decompressed

if TYPE_CHECKING:
    from redis import Redis

# The keys of a job that can expire, by the names of Keys.
EXPIRING = ("job", "results", "dependencies", "dependents")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """Its hash, its results, its place in the registry, whom it waits for and who waits for it.

    `expires_at` has the moment of each key that expires, in milliseconds since 1970.
    """

    fields: Mapping[bytes, bytes]
    results: Sequence[tuple[bytes, Mapping[bytes, bytes]]] = ()
    score: float | None = None
    dependencies: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    expires_at: Mapping[str, int] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Decode a field of the hash for people; None where it is missing or empty."""
        return self.fields.get(name.encode(), b"").decode(errors="replace") or None

    @property
    def call(self) -> FunctionCall | None:
        return read_call(decompressed(self.fields.get(b"data", b"")))

    @property
    def group(self) -> str:
        return text(self.fields.get(b"group_id", b""))

    @property
    def digest(self) -> str:
        """A digest of the values in the order of the fields; the script that deletes makes the same one."""
        values = self.fields.values()
        return hashlib.sha1(b"".join(b"%d:%s" % (len(value), value) for value in values)).hexdigest()

    @property
    def error(self) -> str | None:
        """The traceback of the last result; RQ before 2 kept it in the hash."""
        for _id, entry in reversed(self.results):
            if b"exc_string" in entry:
                return _inflated(_decoded(entry[b"exc_string"]))
        kept = self.fields.get(b"exc_info")
        return _inflated(kept) if kept else None


def read_jobs(redis: "Redis", jobs: Sequence[Blocked]) -> Iterator[StoredJob]:
    """Read each job whole, a page in one round trip, without changing anything."""
    for page in pages(jobs):
        with redis.pipeline(transaction=False) as pipeline:
            pipeline.time()
            for job in page:
                keys = keys_of(job.id)
                pipeline.hgetall(keys.job)
                pipeline.xrange(keys.results)
                pipeline.zscore(registry_key(job.obstacle.queue, job.obstacle.state), job.id)
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


def _decoded(data: bytes) -> bytes:
    try:
        return base64.b64decode(data)
    except ValueError:
        return data


def _inflated(data: bytes) -> str:
    try:
        return zlib.decompress(data).decode(errors="replace")
    except zlib.error:
        return data.decode(errors="replace")


def _ids(members: set[bytes]) -> tuple[str, ...]:
    return tuple(sorted(text(each) for each in members))
