"""Queue depths, the numbers of blocking jobs in the terms of the runbook, and the probe for `observe`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from pipestate.pipeline.queues.config import RQ, QueueConfig, find_address, open_queues, read_config
from pipestate.pipeline.queues.port import Blocked, Depth, Queues, State


@dataclass(frozen=True, slots=True)
class Figures:
    """Job counts by kind; dangling ids are counted separately."""

    deferred_coordinators: int = 0
    failed_ocr_jobs: int = 0
    dangling: int = 0

    def __bool__(self) -> bool:
        return bool(self.deferred_coordinators or self.failed_ocr_jobs or self.dangling)


def figures(jobs: Iterable[Blocked]) -> Figures:
    """Count jobs by kind.

    >>> from pipestate.pipeline.queues.port import Obstacle
    >>> figures([Blocked("1", Obstacle("ocr", State.FAILED, "ocr_page_job"))])
    Figures(deferred_coordinators=0, failed_ocr_jobs=1, dangling=0)
    """
    number = Counter("dangling" if job.dangling else job.obstacle.state for job in jobs)
    return Figures(number[State.DEFERRED], number[State.FAILED], number["dangling"])


# Queue depths, and the number of jobs that block the pipeline.


@dataclass(frozen=True, slots=True)
class OtherJobs:
    """Blocking jobs of another function than the configured ones; `queues clear` leaves them."""

    queue: str
    state: str
    function: str
    jobs: int


def other_jobs(jobs: Iterable[Blocked]) -> tuple[OtherJobs, ...]:
    """Count the jobs of other functions, by queue, state and function."""
    found = Counter(
        (job.obstacle.queue, str(job.obstacle.state), job.other) for job in jobs if job.other is not None
    )
    return tuple(OtherJobs(*where, number) for where, number in sorted(found.items()))


@dataclass(frozen=True, slots=True)
class QueueState:
    """Depth of a queue, and its jobs that block the pipeline."""

    depth: Depth
    in_the_way: Figures
    others: tuple[OtherJobs, ...] = ()


def read_depths(queues: Queues, config: QueueConfig) -> list[QueueState]:
    """Read every configured queue, without changes."""
    blocked = queues.blocked(config.obstacles())
    found = []
    for depth in queues.depths(config.queues()):
        here = [job for job in blocked if job.obstacle.queue == depth.queue]
        found.append(QueueState(depth, figures(here), other_jobs(here)))
    return found


def total(states: list[QueueState]) -> Figures:
    return Figures(*map(sum, zip(*(astuple(state.in_the_way) for state in states), strict=True)))


# Queue probe for `pipestate observe`: counts the jobs that block the pipeline.


def probe(ini: Path, options: str) -> Mapping[str, float]:
    """Count the blocking jobs in the queues of this ini; return an empty mapping without a Redis address.

    The address comes from REDIS_URL, else from the options, else from `redis_url` under `[pipestate:queues]`.
    """
    named = read_config(ini)
    config = replace(named, url=options or named.url)
    if config.backend == RQ and find_address(config) is None:
        return {}
    with open_queues(config) as queues:
        return count_blocked(queues, config)


def count_blocked(queues: Queues, config: QueueConfig) -> dict[str, float]:
    """Count the deferred jobs of the coordinators' queue and the failed jobs of the OCR queue.

    Jobs of every function count, and dangling ids.
    """
    deferred, failed = config.obstacles()
    return {
        "deferred_coordinators": float(len(queues.blocked([deferred]))),
        "failed_ocr_jobs": float(len(queues.blocked([failed]))),
    }
