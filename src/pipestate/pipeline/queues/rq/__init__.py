"""RQ implementation of the port: queues stored in Redis.

RQ's own functions remove entries while they list or count a registry; this code only reads.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Alive, Blocked, Call, Depth, Exported, Obstacle
from pipestate.pipeline.queues.rq import clear
from pipestate.pipeline.queues.rq.jobs import connected, look_up, registry_key, text

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

STATES = ("started", "deferred", "scheduled", "failed", "finished")


@contextmanager
def connect(url: str) -> Iterator["RqQueues"]:
    """Open the queues of this Redis."""
    with connected(url) as redis:
        yield RqQueues(redis)


class RqQueues:
    """The port `Queues`, for RQ."""

    def __init__(self, redis: "Redis") -> None:
        self.redis = redis

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        found = []
        for queue in map(self._queue, queues):
            with self.redis.pipeline(transaction=False) as pipeline:
                pipeline.llen(queue.key)
                for state in STATES:
                    pipeline.zcard(getattr(queue, f"{state}_job_registry").key)
                queued, *states = pipeline.execute()
            found.append(Depth(queue.name, queued, **dict(zip(STATES, states, strict=True))))
        return found

    def alive(self, queues: Sequence[str]) -> Alive:
        """Find the calls that will still run.

        A deferred job is not alive: it waits for jobs that may never end, and so blocks its site. A running
        job is alive until RQ considers its silent worker abandoned.
        """
        found: Counter[tuple[str, str]] = Counter()
        for queue in map(self._queue, queues):
            for entry in look_up(self.redis, self._alive_ids(queue)):
                if entry.call is not None and entry.call.subdomain is not None:
                    found[entry.call.subdomain, entry.call.name] += 1
        return Alive(found)

    def send(self, calls: Sequence[Call]) -> None:
        """Enqueue all of the calls or none: one Redis transaction."""
        with self.redis.pipeline(transaction=True) as pipeline:
            for call in calls:
                place = call.place
                queue = self._queue(place.queue)
                data = queue.prepare_data(
                    place.function,
                    kwargs=dict(call.kwargs),
                    timeout=place.timeout,
                    description=f"{place.name} (recovered): {call.kwargs['subdomain']}",
                )
                queue.enqueue_many([data], pipeline=pipeline)
            pipeline.execute()

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        found = []
        for obstacle in obstacles:
            with self.redis.pipeline(transaction=False) as pipeline:
                pipeline.zrange(registry_key(obstacle), 0, -1)
                (ids,) = pipeline.execute()
            entries = look_up(self.redis, [text(each) for each in ids])
            found += [
                Blocked(each.id, obstacle, each.gone, each.other(obstacle))
                for each in entries
                if each.blocks(obstacle)
            ]
        return found

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        return clear.export(self.redis, jobs)

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        return clear.clear(self.redis, jobs)

    def _queue(self, name: str) -> "Queue":
        from rq import Queue

        return Queue(name, connection=self.redis)

    def _alive_ids(self, queue: "Queue") -> set[str]:
        """Read all places at one moment, because RQ moves jobs between them."""
        started = queue.started_job_registry
        with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.lrange(queue.key, 0, -1)
            pipeline.lrange(queue.intermediate_queue_key, 0, -1)
            pipeline.zrange(queue.scheduled_job_registry.key, 0, -1)
            pipeline.zrangebyscore(started.key, time.time(), "+inf")
            *waiting, running = pipeline.execute()
        return {
            *(text(entry) for entries in waiting for entry in entries),
            *(started.parse_job_id(text(entry)) for entry in running),
        }
