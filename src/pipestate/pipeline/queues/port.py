"""Port to the job queue: the protocol that pipestate needs, and its values.

Reconcile, `queues show`, `queues clear` and the probe use only `Queues`. `queues/rq` implements it for RQ;
another queue is one file (CONTRIBUTING: "Add another queue").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from pipestate.pipeline.planning import SubjectOutcome


class State(StrEnum):
    """A state in which a job can block the pipeline for ever."""

    DEFERRED = "deferred"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Destination:
    """Destination of a call. Without a module it can be recognised in a queue, but not enqueued."""

    queue: str
    function: str
    timeout: int | None = None

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]

    @property
    def importable(self) -> bool:
        return "." in self.function


@dataclass(frozen=True, slots=True)
class Call:
    """One call to enqueue."""

    place: Destination
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Alive:
    """Number of queued, scheduled or running calls, per function and site."""

    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def of(self, subdomain: str, place: Destination | None) -> int:
        return 0 if place is None else self.calls.get((subdomain, place.name), 0)


@dataclass(frozen=True, slots=True)
class Depth:
    """Number of jobs per state in a queue; unknown states are 0."""

    queue: str
    queued: int = 0
    started: int = 0
    deferred: int = 0
    scheduled: int = 0
    failed: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Jobs that block the pipeline: those in one state, in one queue. `clear` takes those of the function."""

    queue: str
    state: State
    function: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A job that blocks the pipeline; `dangling` means that only its id is left in the queue.

    `other` is the function of a job that is not the obstacle's: it counts, and `clear` leaves it.
    """

    id: str
    obstacle: Obstacle
    dangling: bool = False
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """A job in the format of the export file.

    `content` is JSON: readable details, and all data that bring the job back. `proof` belongs to the backend:
    `clear` uses it to detect changes of the job.
    """

    job: Blocked
    content: Mapping[str, Any]
    proof: Any


class Queues(Protocol):
    """A job queue. Only `send` and `clear` write.

    Iterators keep the order of their input. If the queue is unreachable, the context that opened it raises
    Unreachable.
    """

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        """Count the jobs of these queues."""

    def alive(self, queues: Sequence[str]) -> Alive:
        """Find the calls in these queues that will still run: queued, scheduled, running; not deferred."""

    def send(self, calls: Sequence[Call]) -> None:
        """Enqueue all of the calls, or none."""

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        """List all jobs in these states, of whatever function, including dangling ids."""

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        """Read each job completely; CHANGED if it stopped blocking, GONE if it was deleted."""

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        """Delete each job that still matches its export: DELETED, CHANGED or GONE."""


# A backend is a function that opens the queue at an address.
Backend = Callable[[str], AbstractContextManager[Queues]]
