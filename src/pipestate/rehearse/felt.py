"""A rehearsal's result: what each revision did to which table, and what that would mean for others."""

from dataclasses import dataclass, field
from enum import StrEnum

from pipestate.rehearse.trace import Failure, GateAsked, Statement
from pipestate.verify.report import PhaseReport

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
PATIENT_MS = 2000.0  # so long a reader keeps a table from the migration that asks for it
MOST_SCALED = 10.0  # over more than so many times the rows nothing is guessed


def spelt(mode: str) -> str:
    """Write a mode as SQL does.

    >>> spelt("AccessExclusiveLock"), spelt("ShareLock")
    ('ACCESS EXCLUSIVE', 'SHARE')
    """
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in mode.removesuffix("Lock"))
    return words.strip().upper()


class LimitVerdict(StrEnum):
    """How a figure stands to a limit: it is only an estimate, so that near the limit nobody can say."""

    WITHIN = "within"
    TOO_CLOSE = "too close"
    UNKNOWN = "unknown"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Met:
    """How a request for ACCESS EXCLUSIVE met a patient reader: it gave up, or still waited after two seconds.

    `by` is the statement that asked; one that failed was never told.
    """

    revision: str
    table: str
    gave_up: bool
    waited_ms: float
    at: float = 0.0
    by: Statement | None = None


@dataclass(frozen=True, slots=True)
class TableFelt:
    """What one revision did to one table. Times are in milliseconds, on the clone; None where nobody measured."""

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
    met: Met | None = None
    production_rows: int | None = None

    @property
    def stall_ms(self) -> float:
        """The longest that anybody would have waited; where nobody asked, how long the lock was held."""
        measured = [each for each in (self.writer_ms, self.reader_ms, self.rows_ms) if each is not None]
        return max(measured) if self.writer_ms is not None else max([self.held_ms, *measured])

    @property
    def scale(self) -> float | None:
        """How many times longer it takes in production, by rows; None where that would be a guess.

        It is never less than once: what does not grow with the rows does not shrink with them.
        """
        if self.production_rows is None or self.production_rows <= self.rows:
            return 1.0
        times = self.production_rows / self.rows if self.rows else MOST_SCALED + 1
        return times if times <= MOST_SCALED else None

    @property
    def production_stall_ms(self) -> float | None:
        """The longest wait, scaled to production's rows; None where that would be a guess."""
        return None if self.scale is None else self.stall_ms * self.scale

    @property
    def is_in_the_way(self) -> bool:
        """Say whether somebody may wait for it: a writer, a reader, or whoever wants a row that it wrote."""
        return any(mode != "ShareUpdateExclusiveLock" for mode in self.modes)

    @property
    def patience_ms(self) -> float:
        """How long its request for ACCESS EXCLUSIVE may stand before everybody else; 0 where nobody knows."""
        tried = self.met.waited_ms if self.met is not None and self.met.gave_up else 0.0
        return self.lock_timeout_ms or tried

    @property
    def bounded(self) -> bool | None:
        """Say whether waiting for ACCESS EXCLUSIVE ends by itself; None where it was not asked for, or nobody knows.

        A trial outweighs what lock_timeout says, unless that is longer than the trial was.
        """
        if STRONGEST not in self.modes:
            return None
        if self.met is not None:
            return self.met.gave_up or (self.lock_timeout_ms or 0.0) >= PATIENT_MS
        return None if self.lock_timeout_ms is None else not self.unbounded


@dataclass(frozen=True, slots=True)
class RevisionFelt:
    """What one revision did."""

    revision: str
    path: str
    duration_ms: float
    tables: tuple[TableFelt, ...] = ()
    gates: tuple[GateAsked, ...] = ()
    slowest: Statement | None = None
    loose: bool = False  # it changed something outside of a transaction: short locks were not seen


@dataclass(frozen=True, slots=True)
class OverLimit:
    """Why a rehearsal is over its limit, and what to write instead."""

    revision: str
    table: str
    source: str
    what: str
    instead: str
    verdict: LimitVerdict


@dataclass(frozen=True, slots=True)
class PhaseAsked:
    """A phase of a page, as `runbook/phase`: its gate and its checks on the clone, before the upgrade and after it."""

    phase: str
    before: PhaseReport
    after: PhaseReport


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
    findings: tuple[OverLimit, ...] = ()
    returned: Return | None = None
    phases: tuple[PhaseAsked, ...] = ()
    not_tried: str | None = None  # why no patient reader was met

    @property
    def tables(self) -> tuple[TableFelt, ...]:
        return tuple(table for revision in self.revisions for table in revision.tables)

    @property
    def noise_floor_ms(self) -> float:
        """Waits below this cannot be told from what an empty revision shows."""
        return self.noise_ms * NOISE_FACTOR

    @property
    def longest_stall_ms(self) -> float:
        """The longest wait, scaled to production's rows where that can be said."""
        if self.locks_file:
            return max((revision.duration_ms for revision in self.revisions), default=0.0)
        return max((table.stall_ms * (table.scale or 1.0) for table in self.tables), default=0.0)

    @property
    def beyond(self) -> tuple[TableFelt, ...]:
        """The tables of which production has so many more rows that its waits are unknown."""
        return tuple(table for table in self.tables if table.scale is None and table.is_in_the_way)

    @property
    def bounded(self) -> bool | None:
        """Say whether every wait for ACCESS EXCLUSIVE ends by itself; None where nobody knows of one."""
        found = [table.bounded for table in self.tables if STRONGEST in table.modes]
        return False if False in found else None if None in found else True

    @property
    def exit_code(self) -> int:
        if self.failure is not None:
            return self.failure.exit_code
        returned = self.returned is None or self.returned.ok
        return 1 if self.findings or not returned else 0
