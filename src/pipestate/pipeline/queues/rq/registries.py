"""RQ's registries of deferred and failed jobs: which of them block the pipeline, and how many there are.

RQ's own ways to list and count a registry drop entries from it as they go; everything here only reads.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.port import Blocked, Depth, Obstacle, State
from pipestate.pipeline.queues.rq.connection import pages, text
from pipestate.pipeline.queues.rq.function_call import FunctionCall, read_call
from pipestate.pipeline.queues.rq.keys import keys_of, registry_key

if TYPE_CHECKING:
    from redis import Redis

STATES = ("started", "deferred", "scheduled", "failed", "finished")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """An id that a queue or a registry keeps; its job may be gone, or its call unreadable."""

    id: str
    call: FunctionCall | None
    gone: bool
    status: str = ""

    def blocks(self, obstacle: Obstacle) -> bool:
        """Does it block: is it a job of that function in that state, or an id whose job is gone?"""
        if self.gone:
            return True
        return self.call is not None and self.call.name == obstacle.function and self._is_in(obstacle.state)

    def _is_in(self, state: State) -> bool:
        """Compare the status: RQ keeps stopped jobs among the failed; any other status is that of a job that has moved on."""
        return self.status == state or (state is State.FAILED and self.status == "stopped")


def blocked(redis: "Redis", obstacle: Obstacle) -> list[Blocked]:
    """List what blocks the pipeline in the registry of an obstacle."""
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.zrange(registry_key(obstacle.queue, obstacle.state), 0, -1)
        (ids,) = pipeline.execute()
    return [
        Blocked(entry.id, obstacle, entry.gone)
        for entry in look_up(redis, [text(each) for each in ids])
        if entry.blocks(obstacle)
    ]


def look_up(redis: "Redis", ids: Iterable[str]) -> Iterator[RegistryEntry]:
    """Read what stands behind each id."""
    for page in pages(list(ids)):
        with redis.pipeline(transaction=False) as pipeline:
            for job_id in page:
                pipeline.hmget(keys_of(job_id).job, ["data", "status"])
            for job_id, (data, status) in zip(page, pipeline.execute(), strict=True):
                call = None if data is None else read_call(decompressed(data))
                yield RegistryEntry(job_id, call, data is None, text(status or b""))


def depths(redis: "Redis", queues: Sequence[str]) -> list[Depth]:
    return [_depth(redis, name) for name in queues]


def _depth(redis: "Redis", name: str) -> Depth:
    from rq import Queue

    queue = Queue(name, connection=redis)
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.llen(queue.key)
        for state in STATES:
            pipeline.zcard(getattr(queue, f"{state}_job_registry").key)
        queued, *states = pipeline.execute()
    return Depth(name, queued, **dict(zip(STATES, states, strict=True)))


def decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # as RQ does for jobs of its early versions
        return data
