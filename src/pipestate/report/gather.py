"""Data of a report: the status, the ledger's last days, and recorded numbers over time, in one snapshot."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import URL, Connection, select
from sqlalchemy.exc import DBAPIError

from pipestate.database.drivers import message
from pipestate.ledger.history import OBSERVATION, SOURCES, Entry, Wanted, history, installed_sources
from pipestate.ledger.record import COMPAT, REHEARSE, Event
from pipestate.ledger.tables import in_utc, ledger_on
from pipestate.project.graph import Position
from pipestate.report.series import (
    MOST_POINTS,
    Point,
    Series,
    Window,
    as_number,
    extremes,
    limits,
    observation_limits,
    observed_value,
    satisfied,
    thin,
)
from pipestate.runbook.criterion import Comparison
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.status.collect import collect
from pipestate.status.facts import read_rehearsals
from pipestate.status.model import RecordedRehearsal, Status
from pipestate.status.records import LedgerReading
from pipestate.verify.checks import find_phases
from pipestate.verify.read import guarded
from pipestate.verify.report import Outcome
from pipestate.verify.run import DEFAULT_TIMEOUT_S

Judged = tuple[tuple[Comparison, ...], Point]
STREAMED = {"yield_per": 2000}
MOST_READ = 2000
# Records are frequent, other entries rare: separate limits keep both on the page.
MOST_RECORDS, MOST_OTHERS = 60, 100
DAYS = 30
# A longer strip of days does not fit on the page.
MOST_STRIPPED = 60
MOST_REHEARSALS = 20


@dataclass(frozen=True, slots=True)
class _Run:
    id: int
    at: datetime
    wrong: int


def check_series(connection: Connection, runbook: Runbook, phase: Phase, window: Window) -> list[Series]:
    """Read every number that the checks of a phase compared, in the runbook's order.

    At most MOST_POINTS records are read in full; of records close together the worst is kept.
    """

    def worst(runs: Sequence[_Run]) -> list[_Run]:
        return [max(runs, key=lambda run: (run.wrong, run.at, run.id))]

    total, runs = thin(_runs(connection, runbook, phase, window), window, worst, slots=MOST_POINTS)
    result, times = ledger_on(connection.dialect.name).result, {run.id: run.at for run in runs}
    columns = (result.c[name] for name in ("run_id", "check_id", "outcome", "required", "observed"))
    rows = connection.execute(select(*columns).where(result.c.run_id.in_(times)).order_by(result.c.id))
    selected = [check.id for check in phase.checks_for(connection.dialect.name) if isinstance(check, Check)]
    found: dict[tuple[str, str], list[Judged]] = {}
    for row in sorted(rows, key=lambda row: (times[row.run_id], row.run_id)):
        if row.check_id in selected and row.outcome != Outcome.SKIPPED:
            for column, judged in _numbers(row, times[row.run_id]):
                found.setdefault((row.check_id, column), []).append(judged)
    thinned = total - len(runs)
    return [
        Series(
            *(f"{runbook.name}/{phase.name}/{check}", column, judged[-1][0]),
            tuple(point for _, point in judged),
            len(judged) + thinned,
        )
        for (check, column), judged in sorted(found.items(), key=lambda item: selected.index(item[0][0]))
        if any(point.value is not None for _, point in judged)
    ]


def observation_series(
    connection: Connection, wanted: Mapping[str, tuple[Comparison, ...]], window: Window
) -> list[Series]:
    """Read the external observations with these names, with the limits of today's checks."""
    fact = ledger_on(connection.dialect.name).observation
    found = []
    for name, comparisons in wanted.items():
        query = (
            select(fact.c.observed_at, fact.c.value)
            .where(fact.c.name == name, fact.c.observed_at.between(window.start, window.end))
            .order_by(fact.c.observed_at, fact.c.id)
        )
        points = (
            Point(in_utc(row.observed_at), as_number(row.value), satisfied(comparisons, row.value))
            for row in connection.execute(query, execution_options=STREAMED)
        )
        total, kept = thin(points, window, extremes, slots=MOST_POINTS // 2)
        if total:
            found.append(Series(name, "value", comparisons, tuple(kept), total))
    return found


def watched(phases: Sequence[Phase], dialect: str) -> dict[str, tuple[Comparison, ...]]:
    """Return the limits that the checks of these phases set for observations, by the observation's name."""
    found: dict[str, dict[Comparison, None]] = {}
    for check in (check for phase in phases for check in phase.checks_for(dialect)):
        if isinstance(check, Check) and (seen := observation_limits(check)) is not None:
            found.setdefault(seen[0], {}).update(dict.fromkeys(seen[1]))
    return {name: tuple(comparisons) for name, comparisons in found.items()}


def _runs(connection: Connection, runbook: Runbook, phase: Phase, window: Window) -> Iterator[_Run]:
    run = ledger_on(connection.dialect.name).run
    wrong = (run.c.failed + run.c.errored + run.c.warned).label("wrong")
    query = (
        select(run.c.id, run.c.recorded_at, wrong)
        .where(run.c.runbook == runbook.name, run.c.phase == phase.name)
        .where(run.c.recorded_at.between(window.start, window.end))
        .order_by(run.c.recorded_at, run.c.id)
    )
    for row in connection.execute(query, execution_options=STREAMED):
        yield _Run(row.id, in_utc(row.recorded_at), row.wrong)


def _numbers(row: Any, at: datetime) -> Iterator[tuple[str, Judged]]:
    """Yield the numbers of one result that its criterion compares."""
    observed = row.observed if isinstance(row.observed, Mapping) else {}
    for column, comparisons in limits(row.required or "").items():
        value = observed_value(observed, column)
        yield column, (comparisons, Point(at, as_number(value), satisfied(comparisons, value)))


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """Equal entries of the ledger: the newest, the time of the oldest, and their number."""

    entry: Entry
    since: datetime
    times: int


def read_lines(connection: Connection, window: Window) -> tuple[tuple[HistoryLine, ...], tuple[str, ...]]:
    """Read the newest entries of the window, and the reason if some are unreadable. Observations have charts."""
    others, broken = installed_sources()
    known = {kind for source in (*SOURCES, *others) for kind in source.kinds}
    rest = frozenset(known - {OBSERVATION, Event.VERIFY})
    records = history(connection, Wanted(MOST_READ, window.start, kinds=frozenset({Event.VERIFY})))
    found = history(connection, Wanted(MOST_READ, window.start, kinds=rest), others=others)
    lines = (*fold(records.entries)[:MOST_RECORDS], *fold(found.entries)[:MOST_OTHERS])
    newest_first = tuple(sorted(lines, key=lambda line: line.entry.at, reverse=True))
    return newest_first, tuple(str(error) for error in (*broken, *found.errors))


def fold(entries: Iterable[Entry]) -> tuple[HistoryLine, ...]:
    """Join consecutive equal entries of one kind and phase; newest first."""
    lines: list[HistoryLine] = []
    newest: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = (entry.kind, entry.what.partition(" ")[0] if entry.kind == Event.VERIFY else "")
        place, said = newest.get(key), (entry.who, entry.what, entry.revision)
        line = lines[place] if place is not None else None
        if place is not None and line and said == (line.entry.who, line.entry.what, line.entry.revision):
            lines[place] = replace(line, since=entry.at, times=line.times + 1)
        else:
            newest[key] = len(lines)
            lines.append(HistoryLine(entry, entry.at, 1))
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class History:
    """Records of the last days; `unread` lists the unreadable parts with reasons."""

    checks: Mapping[tuple[str, str], tuple[Series, ...]] = field(default_factory=dict)
    observations: tuple[Series, ...] = ()
    lines: tuple[HistoryLine, ...] = ()
    rehearsals: tuple[RecordedRehearsal, ...] = ()
    unread: tuple[str, ...] = ()

    def series(self) -> tuple[Series, ...]:
        return (*(each for those in self.checks.values() for each in those), *self.observations)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All data of a report: the runbooks, the status, and the history."""

    books: tuple[Runbook, ...]
    status: Status
    window: Window
    history: History


def gather(
    connection: Connection,
    url: URL,
    books: Sequence[Runbook],
    position: Position,
    *,
    days: int = DAYS,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Gathered:
    """Read everything, on a connection of `db.reader`; `days` is the length of the window."""
    phases = find_phases(books)
    status = collect(connection, url, phases, position, timeout_s=timeout_s, days=min(days, MOST_STRIPPED))
    window = Window(status.at - timedelta(days=days), status.at)
    history = _history(connection, books, status, position, window, timeout_s)
    return Gathered(tuple(books), status, _narrowed(window, history), history)


def _history(
    connection: Connection,
    books: Sequence[Runbook],
    status: Status,
    position: Position,
    window: Window,
    timeout_s: float,
) -> History:
    """Read the ledger's records; an unreadable ledger becomes a sentence in the report."""
    if status.no_ledger is not None:
        return History()
    applying = {(book.name, phase.name) for book, phase in status.phases() if phase.applies}
    phases = find_phases(books)
    selected = [phase for book, phase in phases if (book.name, phase.name) in applying]
    limits = watched(selected, connection.dialect.name)
    names = {each.name: limits.get(each.name, ()) for each in status.observations}
    source = LedgerReading(connection, status.at, ())
    try:
        with guarded(connection, timeout_s):
            lines, errors = read_lines(connection, window)
            return History(
                {
                    (book.name, phase.name): tuple(found)
                    for book, phase in phases
                    if (found := check_series(connection, book, phase, window))
                },
                tuple(observation_series(connection, names, window)),
                lines,
                read_rehearsals(source, position.paths, most=MOST_REHEARSALS, kinds=(REHEARSE, COMPAT)),
                errors,
            )
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return History(unread=(f"the history cannot be read: {' '.join(message(error).split())}",))


def _narrowed(window: Window, history: History) -> Window:
    """Start the window at the first point: a ledger of three days needs no month."""
    first = min((series.points[0].at for series in history.series()), default=window.start)
    latest = window.end - timedelta(days=1)
    return Window(max(window.start, min(first, latest)), window.end)
