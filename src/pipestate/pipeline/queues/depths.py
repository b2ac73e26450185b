"""How full the queues are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.clear import Figures, figures, plan_clearing
from pipestate.pipeline.queues.config import Wiring

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue

STATES = ("started", "deferred", "scheduled", "failed", "finished")


@dataclass(frozen=True, slots=True)
class Depth:
    """The ids that a queue and its registries hold, and those of them that stand in the way."""

    queue: str
    queued: int
    started: int
    deferred: int
    scheduled: int
    failed: int
    finished: int
    in_the_way: Figures


def depths(redis: "Redis", wiring: Wiring) -> list[Depth]:
    """Each queue of the wiring, without changing anything: RQ's own counting drops expired entries."""
    from rq import Queue

    plan = plan_clearing(redis, wiring)
    standing = {
        name: figures(tuple(each for each in plan if each.registry.queue == name)) for name in wiring.queues()
    }
    return [_depth(redis, Queue(name, connection=redis), stands) for name, stands in standing.items()]


def _depth(redis: "Redis", queue: "Queue", in_the_way: Figures) -> Depth:
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.llen(queue.key)
        for state in STATES:
            pipeline.zcard(getattr(queue, f"{state}_job_registry").key)
        queued, *states = pipeline.execute()
    return Depth(queue.name, queued, **dict(zip(STATES, states, strict=True)), in_the_way=in_the_way)


def total(found: list[Depth]) -> Figures:
    return Figures(
        sum(depth.in_the_way.deferred_coordinators for depth in found),
        sum(depth.in_the_way.failed_ocr_jobs for depth in found),
        sum(depth.in_the_way.dangling for depth in found),
    )
