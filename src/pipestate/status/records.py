"""Reading of the ledger's rows: a connection, the selected phases, and the time window."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Integer,
    Select,
    TableClause,
    and_,
    case,
    column,
    func,
    or_,
    select,
)
from sqlalchemy import table as table_of

from pipestate.database.connections import choose
from pipestate.ledger.history import EARLIEST, LATEST
from pipestate.ledger.record import Event
from pipestate.ledger.tables import NAMING, Ledger, in_utc, ledger_on
from pipestate.status.model import ClosedRecord, Day, DayState, FailedCheck, Forced, OpenStreak

# Older records are left to `pipestate history`: each query reads a limited part of an index.
HORIZON = timedelta(days=90)
AHEAD = timedelta(minutes=5)  # tolerance for clocks ahead of the server's
OPEN = "open"
MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """The ledger at one moment. `phases` are pairs of runbook and phase."""

    connection: Connection
    now: datetime
    phases: tuple[tuple[str, str], ...]

    @property
    def ledger(self) -> Ledger:
        return ledger_on(self.connection.dialect.name)

    def rows(self, query: "Select[Any]") -> list[Any]:
        return list(self.connection.execute(query))

    def of_phases(self, runbook: "ColumnElement[Any]", phase: "ColumnElement[Any]") -> "ColumnElement[bool]":
        """Filter the rows of the selected phases."""
        return or_(False, *(and_(runbook == book, phase == name) for book, name in self.phases))

    def lately(self, at: "ColumnElement[Any]", span: timedelta = HORIZON) -> "ColumnElement[bool]":
        """Filter the rows of a time window; this excludes times outside Python's range."""
        return at.between(self.now - span, self.now + AHEAD)

    def view(self, name: str, times: tuple[str, ...], *others: str) -> TableClause:
        """Describe a view of the ledger; its time columns are typed on each engine."""
        columns: list[Column[Any]] = [column(each, DateTime(timezone=True)) for each in times]  # type: ignore[misc]
        columns += [column(each) for each in others]  # type: ignore[misc]
        naming = choose(NAMING, self.connection)
        return table_of(f"{naming.prefix}{name}", *columns, schema=naming.schema)


Made = TypeVar("Made")


def made(kind: type[Made], row: Any, **given: Any) -> Made:
    """Make a dataclass of the given values, and of the columns that have the names of the other fields.

    Times are in UTC, and decimals become floats.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {name: given[name] if name in given else getattr(row, name) for name in names}
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = in_utc(value)
        elif isinstance(value, Decimal):
            values[name] = float(value)
    return kind(**values)


Phase = tuple[str, str]


def read_open_streaks(source: LedgerReading) -> dict[Phase, OpenStreak]:
    """Read the streaks from the view `soak`."""
    soak = source.view(
        "soak",
        ("open_since", "last_record_at"),
        *("runbook", "phase", "records", "days_open", "longest_gap_hours", "hours_since_last_record"),
    )
    c = soak.c
    last = case((c.last_record_at.between(EARLIEST, LATEST), c.last_record_at))  # NULL outside Python's range
    query = select(
        *(c.runbook, c.phase, c.records, c.longest_gap_hours, c.hours_since_last_record),
        *(c.open_since.label("since"), c.days_open.label("days"), last.label("last_record_at")),
    ).where(source.of_phases(c.runbook, c.phase))
    return {(row.runbook, row.phase): made(OpenStreak, row) for row in source.rows(query)}


def read_days(source: LedgerReading, days: int) -> dict[Phase, tuple[Day, ...]]:
    """Count the records of the last days, today included, by phase and day."""
    run = source.ledger.run
    first = source.now.date() - timedelta(days=days - 1)
    day = func.date(run.c.recorded_at, type_=Date)
    is_open = case((run.c.gate == OPEN, 1), else_=0)
    query = (
        select(
            run.c.runbook, run.c.phase, day.label("day"), _sum(is_open, "open"), _sum(1 - is_open, "closed")
        )
        .where(run.c.event == Event.VERIFY, source.of_phases(run.c.runbook, run.c.phase))
        .where(
            run.c.recorded_at.between(datetime(first.year, first.month, first.day, tzinfo=UTC), source.now)
        )
        .group_by(run.c.runbook, run.c.phase, day)
    )
    counted: dict[Phase, dict[date, tuple[int, int]]] = {phase: {} for phase in source.phases}
    for row in source.rows(query):
        counted[row.runbook, row.phase][row.day] = (int(row.open), int(row.closed))
    began = _first_records(source)
    span = [first + timedelta(days=number) for number in range(days)]
    return {
        phase: tuple(make_day(each, *counts.get(each, (0, 0)), began.get(phase), span[-1]) for each in span)
        for phase, counts in counted.items()
    }


def make_day(day: date, opened: int, closed: int, began: date | None, today: date) -> Day:
    """Classify a day by its records. An empty day is a gap, unless it is today or precedes all records."""
    if opened and closed:
        return Day(day, opened, closed, DayState.MIXED)
    if opened or closed:
        return Day(day, opened, closed, DayState.OPEN if opened else DayState.CLOSED)
    is_gap = began is not None and began < day < today
    return Day(day, 0, 0, DayState.GAP if is_gap else DayState.NONE)


def read_last_closed(source: LedgerReading) -> dict[Phase, ClosedRecord]:
    """Read the last closed record of each phase, with its failed checks."""
    run = source.ledger.run
    newest = _newest(source).where(run.c.event == Event.VERIFY, func.coalesce(run.c.gate, "") != OPEN)
    rows = source.rows(_first_of_each(newest))
    failed = read_failures(source, [row.id for row in rows])
    return {
        (row.runbook, row.phase): ClosedRecord(in_utc(row.recorded_at), row.actor, failed.get(row.id, ()))
        for row in rows
    }


def read_forced(source: LedgerReading) -> Forced | None:
    """Read the last forced gate of these phases."""
    run = source.ledger.run
    rows = source.rows(_first_of_each(_newest(source).where(run.c.event == Event.FORCE)))
    if not rows:
        return None
    row = max(rows, key=lambda each: (each.recorded_at, each.id))
    failures = read_failures(source, [row.id]).get(row.id, ())
    return made(Forced, row, at=row.recorded_at, by=row.actor, failures=failures, applied=True)


def read_failures(source: LedgerReading, runs: Sequence[int]) -> dict[int, tuple[FailedCheck, ...]]:
    """Read the failed and errored blocking checks of these runs."""
    result = source.ledger.result
    query = (
        select(result.c.run_id, result.c.check_id, result.c.outcome, result.c.message)
        .where(result.c.run_id.in_(runs), result.c.level == "block")
        .where(result.c.outcome.in_(("failed", "errored")))
        .order_by(result.c.id)
    )
    found: dict[int, list[FailedCheck]] = {}
    for row in source.rows(query) if runs else ():
        found.setdefault(row.run_id, []).append(FailedCheck(row.check_id, row.outcome, row.message or ""))
    return {run: tuple(failures[:MOST_FAILURES]) for run, failures in found.items()}


def _newest(source: LedgerReading) -> Any:
    """Number the runs of each phase, from the newest on."""
    run = source.ledger.run
    back = (run.c.recorded_at.desc(), run.c.id.desc())
    place = func.row_number().over(partition_by=(run.c.runbook, run.c.phase), order_by=back).label("place")
    return select(run, place).where(
        source.of_phases(run.c.runbook, run.c.phase), source.lately(run.c.recorded_at)
    )


def _first_of_each(newest: Any) -> Any:
    numbered = newest.subquery()
    return select(numbered).where(numbered.c.place == 1)


def _first_records(source: LedgerReading) -> dict[Phase, date]:
    run = source.ledger.run
    query = (
        select(run.c.runbook, run.c.phase, func.min(run.c.recorded_at).label("first"))
        .where(run.c.event == Event.VERIFY, source.of_phases(run.c.runbook, run.c.phase))
        .where(source.lately(run.c.recorded_at))
        .group_by(run.c.runbook, run.c.phase)
    )
    return {(row.runbook, row.phase): in_utc(row.first).date() for row in source.rows(query)}


def _sum(expression: Any, name: str) -> Any:
    return func.sum(expression, type_=Integer).label(name)
