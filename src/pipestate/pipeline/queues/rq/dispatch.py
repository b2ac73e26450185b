"""Calls in RQ: find the ones that are still alive, and send new ones."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.port import Alive, Call
from pipestate.pipeline.queues.rq.connection import text
from pipestate.pipeline.queues.rq.registries import look_up

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue


def alive(redis: "Redis", queues: Sequence[str]) -> Alive:
    """Read every queue without changes (RQ's own functions remove entries while reading).

    A deferred job is not alive: it waits for jobs that may never end, and so blocks its site. A running job
    is alive until RQ considers its silent worker abandoned.
    """
    from rq import Queue

    found: Counter[tuple[str, str]] = Counter()
    for name in queues:
        for entry in look_up(redis, _ids(redis, Queue(name, connection=redis))):
            if entry.call is not None and entry.call.subdomain is not None:
                found[entry.call.subdomain, entry.call.name] += 1
    return Alive(found)


def _ids(redis: "Redis", queue: "Queue") -> set[str]:
    """Read all places at one moment, because RQ moves jobs between them."""
    started = queue.started_job_registry
    with redis.pipeline(transaction=True) as pipeline:
        pipeline.lrange(queue.key, 0, -1)
        pipeline.lrange(queue.intermediate_queue_key, 0, -1)
        pipeline.zrange(queue.scheduled_job_registry.key, 0, -1)
        pipeline.zrangebyscore(started.key, time.time(), "+inf")
        *waiting, running = pipeline.execute()
    return {
        *(text(entry) for entries in waiting for entry in entries),
        *(started.parse_job_id(text(entry)) for entry in running),
    }


def send(redis: "Redis", calls: Sequence[Call]) -> None:
    """Enqueue all of the calls or none: one Redis transaction."""
    from rq import Queue

    with redis.pipeline(transaction=True) as pipeline:
        for call in calls:
            place = call.place
            data = Queue.prepare_data(
                place.function,
                kwargs=dict(call.kwargs),
                timeout=place.timeout,
                description=f"{place.name} (recovered): {call.kwargs['subdomain']}",
            )
            Queue(place.queue, connection=redis).enqueue_many([data], pipeline=pipeline)
        pipeline.execute()
