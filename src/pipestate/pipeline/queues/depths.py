"""How full the queues are, and how many of their jobs block the pipeline."""

from dataclasses import dataclass

from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.figures import Figures, figures
from pipestate.pipeline.queues.port import Depth, Queues


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue's depth, and what of it blocks the pipeline."""

    depth: Depth
    in_the_way: Figures


def read_depths(queues: Queues, config: QueueConfig) -> list[QueueState]:
    """Look into every queue of the configuration, without changing anything."""
    blocked = queues.blocked(config.obstacles())
    return [
        QueueState(depth, figures(job for job in blocked if job.obstacle.queue == depth.queue))
        for depth in queues.depths(config.queues())
    ]


def total(states: list[QueueState]) -> Figures:
    return Figures(
        sum(state.in_the_way.deferred_coordinators for state in states),
        sum(state.in_the_way.failed_ocr_jobs for state in states),
        sum(state.in_the_way.dangling for state in states),
    )
