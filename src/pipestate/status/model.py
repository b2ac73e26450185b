"""Status of a database at one moment, as frozen values for `status` and `report`.

Times are in UTC and the server's; `at` of Status is the server's clock at the start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from pipestate.ledger.drift import Drift
from pipestate.ledger.soft_drops import SoftDropped
from pipestate.verify.report import DatabaseInfo, Evaluation, Gate, Json, Verdict


class DayState(StrEnum):
    """Summary of a day's records. Mixed: open and closed ones; gap: none, after earlier records."""

    OPEN = "open"
    CLOSED = "closed"
    MIXED = "mixed"
    GAP = "gap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Day:
    """A day in UTC, with the number of a phase's records."""

    date: date
    open: int
    closed: int
    state: DayState


@dataclass(frozen=True, slots=True)
class OpenStreak:
    """The streak of open records of a phase, from the view `soak`; an absent streak has `since` None."""

    since: datetime | None
    days: float | None
    records: int
    longest_gap_hours: float | None
    last_record_at: datetime | None
    hours_since_last_record: float | None


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A blocking check that failed or errored in a past run."""

    check: str
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class ClosedRecord:
    """The last record of a closed gate: it ended a streak."""

    at: datetime
    by: str
    failures: tuple[FailedCheck, ...]


@dataclass(frozen=True, slots=True)
class Soak:
    """A check that requires days on record. `of` is the phase with the records, if the check names it.

    `days` and `since` are the observed values: None without a streak. `opens_at` is the earliest moment at which
    the check can pass; a count that must restart starts now at best. It is None if more than time is needed.
    `ends_next` marks a phase that is closed now: its next record ends the streak.
    """

    check: str
    of: str | None
    days: float | None
    required: float
    since: datetime | None
    opens_at: datetime | None
    passed: bool
    ends_next: bool = False

    @property
    def counts(self) -> bool:
        """Tell whether the observed days count towards the required ones."""
        return self.passed or self.since is not None


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a closed gate. `at` is None if time alone does not decide, or the date is unknown.

    `waits_for` names the failed blocking checks that time alone cannot fix.
    """

    at: datetime | None
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedSignOff:
    """The latest sign-off of a person; it is valid until `until`."""

    person: str
    at: datetime
    until: datetime
    is_valid: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class SignOffStatus:
    """A sign-off that a phase requires, and the people who gave it.

    `missing` counts the people still needed. `until` is the moment at which too few sign-offs remain valid; None
    before there are enough.
    """

    id: str
    text: str
    valid_for: timedelta
    people: int
    words: tuple[RecordedSignOff, ...]
    missing: int
    until: datetime | None


@dataclass(frozen=True, slots=True)
class PhaseStatus:
    """A phase: its current gate, its records and its opening. Without a ledger, only the gate."""

    name: str
    gate: Gate
    opens: tuple[str, ...]
    checks: tuple[Verdict, ...]
    soaks: tuple[Soak, ...] = ()
    opening: Opening | None = None
    sign_offs: tuple[SignOffStatus, ...] = ()
    open_streak: OpenStreak | None = None
    days: tuple[Day, ...] = ()
    last_closed: ClosedRecord | None = None
    obstacles: tuple[str, ...] = ()  # reasons for which an upgrade would refuse what this gate opens

    @property
    def applies(self) -> bool:
        return self.gate in (Gate.OPEN, Gate.CLOSED)

    @property
    def missing(self) -> tuple[Verdict, ...]:
        """The blocking checks that keep the gate closed."""
        return tuple(verdict for verdict in self.checks if verdict.closes)

    @property
    def warned(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.checks if verdict.warned)


@dataclass(frozen=True, slots=True)
class RunbookStatus:
    name: str
    title: str
    path: str
    phases: tuple[PhaseStatus, ...]
    default: bool = True


@dataclass(frozen=True, slots=True)
class Observed:
    """The latest observation of a name. `checked_by` names the checks with that name in their SQL.

    `fails` names those of them that failed or errored.
    """

    name: str
    value: float
    at: datetime
    age: timedelta
    source: str
    actor: str
    checked_by: tuple[str, ...]
    fails: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forced:
    """A forced gate: person, time, reason and failed checks; `applied` if its revision is still applied."""

    runbook: str
    phase: str
    at: datetime
    by: str
    reason: str | None
    revision: str | None
    failures: tuple[FailedCheck, ...]
    applied: bool = True


@dataclass(frozen=True, slots=True)
class Backfilling:
    """The newest run of a backfill; it is done when `finished_at` is set."""

    runbook: str
    id: str
    table: str
    percent: int
    rows_updated: int
    rows_left: int | None
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    actor: str


@dataclass(frozen=True, slots=True)
class RecordedRehearsal:
    """A recorded rehearsal. `unchanged` means that its files equal today's.

    `statements` and `broken` belong to the kind `compat`, which measures nothing.
    """

    at: datetime
    by: str
    revisions: tuple[str, ...]
    clone: str
    rows: int
    longest_wait_ms: float | None
    idle_wait_ms: float | None
    bounded: bool | None
    ok: bool
    unchanged: bool
    kind: str = "rehearse"
    statements: int | None = None
    broken: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of a view, or its error; `total` counts all rows."""

    id: str
    rows: tuple[dict[str, Json], ...]
    error: str | None
    total: int = 0
    runbook: str = ""


@dataclass(frozen=True, slots=True)
class Status(Evaluation):
    """The whole status. `no_ledger` explains in one sentence why ledger records are absent, and the remedy."""

    at: datetime
    database: DatabaseInfo
    runbooks: tuple[RunbookStatus, ...]
    views: tuple[Shown, ...] = ()
    warnings: tuple[str, ...] = ()
    no_ledger: str | None = None
    observations: tuple[Observed, ...] = ()
    forced: Forced | None = None
    backfills: tuple[Backfilling, ...] = ()
    rehearsal: RecordedRehearsal | None = None
    drift: Drift | None = None
    soft_dropped: tuple[SoftDropped, ...] = ()

    @property
    def forged(self) -> bool:
        """Tell whether the ledger is hidden because part of it belongs to another role."""
        return self.no_ledger in self.warnings

    def phases(self) -> Iterator[tuple[RunbookStatus, PhaseStatus]]:
        return ((runbook, phase) for runbook in self.runbooks for phase in runbook.phases)
