"""How a database stands at one moment, as frozen values: what `status` and `report` show.

Times are in UTC and the server's; `at` of Standing is its clock when the look began.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from pipestate.verify.report import DatabaseInfo, Gate
from pipestate.verify.run import Shown
from pipestate.verify.verdict import Verdict


class DayState(StrEnum):
    """What the records of a day say. Mixed: open and closed ones; gap: none, though there were records before."""

    OPEN = "open"
    CLOSED = "closed"
    MIXED = "mixed"
    GAP = "gap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Day:
    """A day in UTC, and how many records of a phase it has."""

    date: date
    open: int
    closed: int
    state: DayState


@dataclass(frozen=True, slots=True)
class Held:
    """The streak of open records of a phase, as the view `soak` has it; `since` is None where none holds."""

    since: datetime | None
    days: float | None
    records: int
    longest_gap_hours: float | None
    last_record_at: datetime | None
    hours_since_last_record: float | None


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A blocking check that failed or errored in a run of the past."""

    check_id: str
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class ClosedRecord:
    """The last record that found a gate closed: it ended a streak."""

    at: datetime
    by: str
    failures: tuple[FailedCheck, ...]


@dataclass(frozen=True, slots=True)
class Soak:
    """A check that wants so many days on record. `of` is the phase whose records it reads, where it says so.

    `days` and `since` are what was observed: None where nothing holds yet. `opens_at` is the earliest moment at
    which it can pass: a count that must begin anew begins now at best. None where no time brings it about.
    `ends_next` says that the phase is closed now, so that its next record ends the streak.
    """

    check_id: str
    of: str | None
    days: float | None
    required: float
    since: datetime | None
    opens_at: datetime | None
    passed: bool
    ends_next: bool = False

    @property
    def counts(self) -> bool:
        """Say whether the days that were observed count towards those that are required."""
        return self.passed or self.since is not None


@dataclass(frozen=True, slots=True)
class Opening:
    """When a closed gate can open. `at` is None where time alone does not decide, or no date can be said.

    `waits_for` names the blocking checks that went wrong and that no time brings about.
    """

    at: datetime | None
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """The latest word of a person on a sign-off; it holds until `until`."""

    person: str
    at: datetime
    until: datetime
    holds: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class SignOffStanding:
    """A sign-off that a phase asks for, and who has given it.

    `missing` counts the people whose word is still wanted; `until` is when too few words hold, None before that.
    """

    id: str
    text: str
    valid_for: timedelta
    people: int
    words: tuple[Word, ...]
    missing: int
    until: datetime | None


@dataclass(frozen=True, slots=True)
class PhaseStanding:
    """A phase: its gate now, what its records say, and when it can open. Without a ledger, the gate alone."""

    name: str
    gate: Gate
    opens: tuple[str, ...]
    checks: tuple[Verdict, ...]
    signoffs: tuple[SignOffStanding, ...]
    soaks: tuple[Soak, ...]
    opening: Opening | None
    held: Held | None
    days: tuple[Day, ...]
    last_closed: ClosedRecord | None

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
class RunbookStanding:
    name: str
    title: str
    path: str
    phases: tuple[PhaseStanding, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """The latest observation of a name. `asked_by` names the checks whose SQL has that name, `fails` those of them
    that went wrong."""

    name: str
    value: float
    at: datetime
    age: timedelta
    source: str
    actor: str
    asked_by: tuple[str, ...]
    fails: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        return bool(self.fails)


@dataclass(frozen=True, slots=True)
class Forced:
    """A gate that was forced: who, when, why, and what had failed; `applied` where its revision still is."""

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
    """A rehearsal that was recorded. `unchanged` says that its files are as they are today.

    `statements` and `broken` are those of the kind `compat`, where nothing was measured.
    """

    at: datetime
    by: str
    revisions: tuple[str, ...]
    clone: str
    rows: int
    longest_stall_ms: float | None
    noise_ms: float | None
    bounded: bool | None
    ok: bool
    unchanged: bool
    kind: str = "rehearse"
    statements: int | None = None
    broken: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it. `no_ledger` says in one sentence why nothing of the ledger is here, and how to get it."""

    at: datetime
    database: DatabaseInfo
    runbooks: tuple[RunbookStanding, ...]
    observations: tuple[Observed, ...]
    forced: Forced | None
    backfills: tuple[Backfilling, ...]
    rehearsal: RecordedRehearsal | None
    views: tuple[Shown, ...]
    warnings: tuple[str, ...]
    no_ledger: str | None

    @property
    def forged(self) -> bool:
        """Say whether the ledger is not shown because something of it belongs to a stranger."""
        return self.no_ledger in self.warnings

    def phases(self) -> Iterator[tuple[RunbookStanding, PhaseStanding]]:
        return ((runbook, phase) for runbook in self.runbooks for phase in runbook.phases)
