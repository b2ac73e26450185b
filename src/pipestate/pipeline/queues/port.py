"""The port to the job queue: what pipestate asks of one, and the values that pass through it.

`Queues` is all that reconcile, `queues show|clear|restore` and the probe know. RQ stands behind it in
`queues/rq`; another queue is one file (CONTRIBUTING: "Add another queue").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from pipestate.errors import ConfigError
from pipestate.pipeline.planning import SubjectOutcome


class State(StrEnum):
    """A state in which a job can block the pipeline for ever."""

    DEFERRED = "deferred"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a call goes. Without the module it can be recognised in a queue, but not enqueued."""

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
    """One call to be enqueued."""

    place: Destination
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Alive:
    """How many calls of a function for a site are queued, scheduled or running."""

    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def of(self, subdomain: str, place: Destination | None) -> int:
        return 0 if place is None else self.calls.get((subdomain, place.name), 0)


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs of each state a queue holds; a state that it does not know is 0."""

    queue: str
    queued: int = 0
    started: int = 0
    deferred: int = 0
    scheduled: int = 0
    failed: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Which jobs block the pipeline: those of one function, in one state, in one queue."""

    queue: str
    state: State
    function: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A job that blocks the pipeline; `dangling` where the queue keeps only its id, and the job is gone."""

    id: str
    obstacle: Obstacle
    dangling: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """A job as the export file keeps it.

    `content` is JSON: what a person wants to read, and everything that brings the job back. `proof` is the
    implementation's own: `clear` tells by it whether the job has changed since.
    """

    job: Blocked
    content: Mapping[str, Any]
    proof: Any


@dataclass(frozen=True, slots=True)
class Saved:
    """A job as it was read from an export file; `where` is its file and line."""

    job: Blocked
    content: Mapping[str, Any]
    where: str


class DamagedExport(ConfigError):
    """An export file that is not as `queues clear` wrote it."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; nothing was restored, give a file that queues clear wrote"


class Queues(Protocol):
    """A job queue. Only `send`, `clear` and `restore` write.

    Iterators answer in the order of what they were given. Where the queue cannot be reached, the context
    that opened it ends with Unreachable.
    """

    @property
    def format(self) -> str:
        """The name and version of what `export` writes, such as `rq/1`."""

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        """Count the jobs of these queues."""

    def alive(self, queues: Sequence[str]) -> Alive:
        """Find the calls in these queues that will still run: queued, scheduled, running; not deferred."""

    def send(self, calls: Sequence[Call]) -> None:
        """Enqueue all of the calls, or none."""

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        """List the jobs that block the pipeline, and the ids whose job is gone."""

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        """Read each job whole; CHANGED where it blocks no more, GONE where it was deleted."""

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        """Delete each job that is still as it was exported: DELETED, CHANGED or GONE."""

    def check(self, jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
        """Say what `restore` would do; raise DamagedExport for content that `export` has not written."""

    def restore(self, jobs: Sequence[Saved]) -> Iterator[SubjectOutcome]:
        """Bring each job back exactly as it was: RESTORED; EXISTS and EXPIRED are left alone."""


# What a backend is: called with the address of the queue, it opens it.
Backend = Callable[[str], AbstractContextManager[Queues]]
