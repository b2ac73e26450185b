"""Ridding the queues of what can never end: plan, export, clear.

1. `plan_clearing` names the ids. It only reads; a dry run ends here.
2. `export` (export.py) writes those jobs into a file and syncs it.
3. `clear` takes what was exported, nothing else, and removes each job that is still as the file has it.

Jobs that appear after the plan are left for the next run, and so are jobs that changed after the export.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipestate.pipeline.queues.config import Wiring
from pipestate.pipeline.queues.rq.registries import Registry, State, in_the_way, registries
from pipestate.pipeline.queues.rq.remove import Outcome, remove
from pipestate.progress import Progress, untold

if TYPE_CHECKING:
    from redis import Redis

    from pipestate.pipeline.queues.export_file import Export


@dataclass(frozen=True, slots=True)
class Planned:
    """An id that is to leave its registry: with its job, or dangling, when there is none."""

    id: str
    registry: Registry
    dangling: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """How many of each."""

    deferred_coordinators: int = 0
    failed_ocr_jobs: int = 0
    dangling: int = 0

    def __bool__(self) -> bool:
        return bool(self.deferred_coordinators or self.failed_ocr_jobs or self.dangling)


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was deleted; what was left because it changed; what somebody else had deleted before."""

    deleted: Figures = field(default_factory=Figures)
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def plan_clearing(redis: "Redis", wiring: Wiring) -> tuple[Planned, ...]:
    """Coordinators first: they wait for the jobs that come after them."""
    return tuple(
        Planned(kept.id, registry, kept.gone)
        for registry in registries(redis, wiring)
        for kept in in_the_way(redis, registry)
    )


def figures(planned: tuple[Planned, ...]) -> Figures:
    number = Counter("dangling" if each.dangling else each.registry.state for each in planned)
    return Figures(number[State.DEFERRED], number[State.FAILED], number["dangling"])


def clear(redis: "Redis", export: "Export", on_progress: Progress = untold) -> Cleared:
    """Remove those jobs and all that RQ keeps about them."""
    outcomes = []
    for job, how in zip(export.jobs, remove(redis, export.jobs), strict=True):
        outcomes.append((job, how))
        on_progress(len(outcomes), len(export.jobs))

    def ended(outcome: Outcome) -> tuple[Planned, ...]:
        return tuple(job.planned for job, how in outcomes if how is outcome)

    return Cleared(
        figures(ended(Outcome.DELETED)),
        export.changed + tuple(each.id for each in ended(Outcome.CHANGED)),
        export.gone + tuple(each.id for each in ended(Outcome.GONE)),
    )
