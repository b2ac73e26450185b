"""A rehearsal's result: what each revision did to which table, and what that would mean for others."""

from dataclasses import dataclass, field
from enum import StrEnum

from pipestate.rehearse.trace import Failure, GateAsked, Statement

# From the weakest to the strongest.
MODES = (
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
STRONGEST = MODES[-1]
NOISE_FACTOR = 5


def spelt(mode: str) -> str:
    """Write a mode as SQL does.

    >>> spelt("AccessExclusiveLock"), spelt("ShareLock")
    ('ACCESS EXCLUSIVE', 'SHARE')
    """
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in mode.removesuffix("Lock"))
    return words.strip().upper()


class Verdict(StrEnum):
    """How a figure stands to a limit: it is only an estimate, so that near the limit nobody can say."""

    WITHIN = "within"
    TOO_CLOSE = "too close"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class TableFelt:
    """What one revision did to one table. Times are in milliseconds; None where nobody measured."""

    revision: str
    table: str
    rows: int
    bytes: int
    modes: tuple[str, ...]  # the strongest first
    rewritten: bool
    taken_by: Statement | None
    spent_by: Statement | None
    unbounded: bool
    lock_timeout_ms: float | None
    held_ms: float
    queued_ms: float
    writer_ms: float | None
    reader_ms: float | None
    rows_ms: float | None

    @property
    def stall_ms(self) -> float:
        """The longest that anybody would have waited; where nobody asked, how long the lock was held."""
        measured = [each for each in (self.writer_ms, self.reader_ms, self.rows_ms) if each is not None]
        return max(measured) if self.writer_ms is not None else max([self.held_ms, *measured])


@dataclass(frozen=True, slots=True)
class RevisionFelt:
    """What one revision did."""

    revision: str
    path: str
    duration_ms: float
    tables: tuple[TableFelt, ...] = ()
    gates: tuple[GateAsked, ...] = ()
    slowest: Statement | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a rehearsal is over its limit, and what to write instead."""

    revision: str
    table: str
    source: str
    what: str
    instead: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Return:
    """The way back and there again: what differs from before, and after the second upgrade from after the first."""

    back: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return not (self.back or self.again or self.failure)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The whole result. `oldest` has production's oldest transaction on each table, in seconds."""

    clone: str
    server: str
    before: str | None
    after: str | None
    duration_ms: float
    noise_ms: float
    revisions: tuple[RevisionFelt, ...]
    failure: Failure | None = None
    not_probed: dict[str, str] = field(default_factory=dict)
    autovacuum: tuple[str, ...] = ()
    production: str | None = None
    oldest: dict[str, float | None] = field(default_factory=dict)
    rows: int = 0  # of all tables of the clone, as the planner knows them
    locks_file: bool = False  # SQLite: whoever writes waits for the whole revision
    limit_ms: float | None = None
    findings: tuple[Finding, ...] = ()
    returned: Return | None = None

    @property
    def tables(self) -> tuple[TableFelt, ...]:
        return tuple(table for revision in self.revisions for table in revision.tables)

    @property
    def noise_floor_ms(self) -> float:
        """Waits below this cannot be told from what an empty revision shows."""
        return self.noise_ms * NOISE_FACTOR

    @property
    def longest_stall_ms(self) -> float:
        if self.locks_file:
            return max((revision.duration_ms for revision in self.revisions), default=0.0)
        return max((table.stall_ms for table in self.tables), default=0.0)

    @property
    def exit_code(self) -> int:
        if self.failure is not None:
            return self.failure.exit_code
        returned = self.returned is None or self.returned.ok
        return 1 if self.findings or not returned else 0
