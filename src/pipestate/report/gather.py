"""Gather what a report shows: how things stand, and what the ledger has of the last days; all in one snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate.chain.position import Position
from pipestate.drivers import message
from pipestate.ledger.rehearsals import COMPAT, REHEARSE
from pipestate.report.lines import HistoryLine, read_lines
from pipestate.report.recorded import check_series, observation_series, watched
from pipestate.report.series import Series, Window
from pipestate.runbook.model import Runbook
from pipestate.standing.collect import collect
from pipestate.standing.facts import read_rehearsals
from pipestate.standing.model import RecordedRehearsal, Standing
from pipestate.standing.source import LedgerReading
from pipestate.verify.read import guarded
from pipestate.verify.run import DEFAULT_TIMEOUT_S
from pipestate.verify.select import find_phases

DAYS = 30
# A strip of days that is longer than this has no room on a page.
MOST_STRIPPED = 60
MOST_REHEARSALS = 20


@dataclass(frozen=True, slots=True)
class Past:
    """What was read of the last days; `unread` says what could not be."""

    checks: Mapping[tuple[str, str], tuple[Series, ...]] = field(default_factory=dict)
    observations: tuple[Series, ...] = ()
    lines: tuple[HistoryLine, ...] = ()
    rehearsals: tuple[RecordedRehearsal, ...] = ()
    unread: tuple[str, ...] = ()

    def series(self) -> tuple[Series, ...]:
        return (*(each for those in self.checks.values() for each in those), *self.observations)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that a page shows: the runbooks, how things stand, and the past."""

    books: tuple[Runbook, ...]
    standing: Standing
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
    """Read everything, on a connection of `db.reader`; `days` is how far back."""
    phases = find_phases(books)
    standing = collect(connection, url, phases, position, timeout_s=timeout_s, days=min(days, MOST_STRIPPED))
    window = Window(standing.at - timedelta(days=days), standing.at)
    past = _past(connection, books, standing, position, window, timeout_s)
    return Gathered(tuple(books), standing, _narrowed(window, past), past)


def _past(
    connection: Connection,
    books: Sequence[Runbook],
    standing: Standing,
    position: Position,
    window: Window,
    timeout_s: float,
) -> Past:
    """Read what the ledger has; one that cannot be read is a sentence on the page, not the end of it."""
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
    standing: Standing,
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
    """Begin with the first point that there is: a ledger of three days needs no month."""
    first = min((series.points[0].at for series in past.series()), default=window.start)
    latest = window.end - timedelta(days=1)
    return Window(max(window.start, min(first, latest)), window.end)
