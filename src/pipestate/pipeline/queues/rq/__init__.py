"""RQ implementation of the port: queues stored in Redis."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import Alive, Blocked, Call, Depth, Exported, Obstacle, Saved
from pipestate.pipeline.queues.rq import clear, dispatch, registries, restore
from pipestate.pipeline.queues.rq.connection import connected
from pipestate.pipeline.queues.rq.stored_job import FORMAT

if TYPE_CHECKING:
    from redis import Redis


@contextmanager
def connect(url: str) -> Iterator["RqQueues"]:
    """Open the queues of this Redis."""
    with connected(url) as redis:
        yield RqQueues(redis)


class RqQueues:
    """The port `Queues`, for RQ."""

    format = FORMAT

    def __init__(self, redis: "Redis") -> None:
        self.redis = redis

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        return registries.depths(self.redis, queues)

    def alive(self, queues: Sequence[str]) -> Alive:
        return dispatch.alive(self.redis, queues)

    def send(self, calls: Sequence[Call]) -> None:
        dispatch.send(self.redis, calls)

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        return [job for obstacle in obstacles for job in registries.blocked(self.redis, obstacle)]

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        return clear.export(self.redis, jobs)

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        return clear.clear(self.redis, jobs)

    def check(self, jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
        return restore.check(self.redis, jobs)

    def restore(self, jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
        return restore.restore(self.redis, jobs)
