"""How many jobs block the pipeline, by the words of the runbook."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pipestate.pipeline.queues.port import Blocked, State


@dataclass(frozen=True, slots=True)
class Figures:
    """Jobs by what they are; ids whose job is gone are counted apart."""

    deferred_coordinators: int = 0
    failed_ocr_jobs: int = 0
    dangling: int = 0

    def __bool__(self) -> bool:
        return bool(self.deferred_coordinators or self.failed_ocr_jobs or self.dangling)


def figures(jobs: Iterable[Blocked]) -> Figures:
    """Count jobs by what they are.

    >>> from pipestate.pipeline.queues.port import Obstacle
    >>> figures([Blocked("1", Obstacle("ocr", State.FAILED, "ocr_page_job"))])
    Figures(deferred_coordinators=0, failed_ocr_jobs=1, dangling=0)
    """
    number = Counter("dangling" if job.dangling else job.obstacle.state for job in jobs)
    return Figures(number[State.DEFERRED], number[State.FAILED], number["dangling"])
