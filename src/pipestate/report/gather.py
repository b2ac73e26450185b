"""Data of a report: the status, the runbooks' notes, and the ledger's last days, in one snapshot."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from markupsafe import Markup
from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate.database.drivers import message
from pipestate.ledger.history import OBSERVATION, SOURCES, Entry, Wanted, history, installed_sources
from pipestate.ledger.record import COMPAT, REHEARSE, Event
from pipestate.project.graph import Position
from pipestate.report.prose import Notes
from pipestate.report.recorded import check_series, observation_series, watched
from pipestate.report.series import Series, Window
from pipestate.runbook.model import Phase, Runbook
from pipestate.status.collect import collect
from pipestate.status.facts import read_rehearsals
from pipestate.status.model import Backfilling, PhaseStatus, RecordedRehearsal, RunbookStatus, Status
from pipestate.status.records import LedgerReading
from pipestate.verify.read import guarded
from pipestate.verify.report import Outcome, Verdict
from pipestate.verify.run import DEFAULT_TIMEOUT_S
from pipestate.verify.select import find_phases

MOST_READ = 2000
# Records are frequent, other entries rare: separate limits keep both on the page.
MOST_RECORDS, MOST_OTHERS = 60, 100


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """Equal entries of the ledger: their number, the newest and the oldest."""

    at: datetime
    since: datetime
    kind: str
    who: str
    what: str
    revision: str | None
    times: int


def read_lines(connection: Connection, window: Window) -> tuple[tuple[HistoryLine, ...], tuple[str, ...]]:
    """Read the newest entries of the window, and the reason if some are unreadable. Observations have charts."""
    others, broken = installed_sources()
    known = {kind for source in (*SOURCES, *others) for kind in source.kinds}
    rest = frozenset(known - {OBSERVATION, Event.VERIFY})
    records = history(connection, Wanted(MOST_READ, window.start, kinds=frozenset({Event.VERIFY})))
    found = history(connection, Wanted(MOST_READ, window.start, kinds=rest), others=others)
    lines = (*fold(records.entries)[:MOST_RECORDS], *fold(found.entries)[:MOST_OTHERS])
    newest_first = tuple(sorted(lines, key=lambda line: line.at, reverse=True))
    return newest_first, tuple(str(error) for error in (*broken, *found.errors))


def fold(entries: Iterable[Entry]) -> tuple[HistoryLine, ...]:
    """Join consecutive equal entries of one kind and phase; newest first."""
    lines: list[HistoryLine] = []
    newest: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = (entry.kind, entry.what.partition(" ")[0] if entry.kind == Event.VERIFY else "")
        place = newest.get(key)
        if place is not None and _same(lines[place], entry):
            lines[place] = replace(lines[place], since=entry.at, times=lines[place].times + 1)
        else:
            newest[key] = len(lines)
            lines.append(
                HistoryLine(entry.at, entry.at, entry.kind, entry.who, entry.what, entry.revision, 1)
            )
    return tuple(lines)


def _same(line: HistoryLine, entry: Entry) -> bool:
    return (line.who, line.what, line.revision) == (entry.who, entry.what, entry.revision)


Macro = Callable[..., Markup]


def check_id(runbook: str, phase: str, check: str) -> str:
    """Return the HTML id of a verdict."""
    return f"check.{runbook}.{phase}.{check}"


def notes_of(
    book: Runbook,
    standing: Status,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Notes:
    """Render the notes of a runbook, by the line of their blocks.

    `charts` maps a verdict's id to the columns and ids of its charts.
    """
    here = next(each for each in standing.runbooks if each.path == book.path)
    notes: dict[int, Markup] = {}
    for phase, stands in zip(book.phases, here.phases, strict=True):
        for verdict in stands.checks:
            notes[int(verdict.source.rpartition(":")[2])] = _verdict(here, stands, verdict, charts, macros)
        notes.update(_others(book, phase, standing, macros))
    return notes


def _verdict(
    book: RunbookStatus,
    phase: PhaseStatus,
    verdict: Verdict,
    charts: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
) -> Markup:
    if verdict.outcome is Outcome.SKIPPED:
        return macros["skipped"](verdict)
    signoff = next((each for each in phase.signoffs if each.id == verdict.check_id), None)
    id = check_id(book.name, phase.name, verdict.check_id)
    return macros["verdict"](id, verdict, signoff, charts.get(id, ()))


def _others(
    book: Runbook, phase: Phase, standing: Status, macros: Mapping[str, Macro]
) -> Iterator[tuple[int, Markup]]:
    dialect = standing.database.dialect
    shown = {view.id for view in standing.views if view.runbook == book.name and (view.rows or view.error)}
    for view in phase.views_for(dialect):
        yield view.line, macros["viewed"](book.name, view.id, view.id in shown)
    for backfill in phase.backfills_for(dialect):
        yield backfill.line, macros["backfilled"](_run_of(backfill.id, book, standing))


def _run_of(id: str, book: Runbook, standing: Status) -> Backfilling | None:
    return next((run for run in standing.backfills if (run.runbook, run.id) == (book.name, id)), None)


DAYS = 30
# A longer strip of days does not fit on the page.
MOST_STRIPPED = 60
MOST_REHEARSALS = 20


@dataclass(frozen=True, slots=True)
class Past:
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
    """All data of a report: the runbooks, the status, and the past."""

    books: tuple[Runbook, ...]
    standing: Status
    window: Window
    past: Past


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
    standing = collect(connection, url, phases, position, timeout_s=timeout_s, days=min(days, MOST_STRIPPED))
    window = Window(standing.at - timedelta(days=days), standing.at)
    past = _past(connection, books, standing, position, window, timeout_s)
    return Gathered(tuple(books), standing, _narrowed(window, past), past)


def _past(
    connection: Connection,
    books: Sequence[Runbook],
    standing: Status,
    position: Position,
    window: Window,
    timeout_s: float,
) -> Past:
    """Read the ledger's records; an unreadable ledger becomes a sentence in the report."""
    if standing.no_ledger is not None:
        return Past()
    try:
        with guarded(connection, timeout_s):
            return _read(connection, books, standing, position, window)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Past(unread=(f"the past cannot be read: {' '.join(message(error).split())}",))


def _read(
    connection: Connection,
    books: Sequence[Runbook],
    standing: Status,
    position: Position,
    window: Window,
) -> Past:
    applying = {(book.name, phase.name) for book, phase in standing.phases() if phase.applies}
    asked = [phase for book in books for phase in book.phases if (book.name, phase.name) in applying]
    limits = watched(asked, connection.dialect.name)
    names = {each.name: limits.get(each.name, ()) for each in standing.observations}
    lines, errors = read_lines(connection, window)
    source = LedgerReading(connection, standing.at, ())
    return Past(
        {
            (book.name, phase.name): tuple(found)
            for book in books
            for phase in book.phases
            if (found := check_series(connection, book, phase, window))
        },
        tuple(observation_series(connection, names, window)),
        lines,
        read_rehearsals(source, position.paths, most=MOST_REHEARSALS, kinds=(REHEARSE, COMPAT)),
        errors,
    )


def _narrowed(window: Window, past: Past) -> Window:
    """Start the window at the first point: a ledger of three days needs no month."""
    first = min((series.points[0].at for series in past.series()), default=window.start)
    latest = window.end - timedelta(days=1)
    return Window(max(window.start, min(first, latest)), window.end)
