"""The history of a report: what happened in the last days, without what happens every quarter of an hour."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from pipestate.ledger.history import OBSERVATION, SOURCES, Entry, Wanted, history
from pipestate.ledger.record import Event
from pipestate.ledger.sources import installed_sources
from pipestate.report.series import Window

MOST_READ = 2000
# Records are written all the time, the rest is rare: neither pushes the other off the page.
MOST_RECORDS, MOST_OTHERS = 60, 100


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of the ledger, and how many of the same day say the same."""

    at: datetime
    kind: str
    who: str
    what: str
    revision: str | None
    times: int


def read_lines(connection: Connection, window: Window) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Read the newest entries of the window, and why some could not be read. Observations have charts instead."""
    others, broken = installed_sources()
    known = {kind for source in (*SOURCES, *others) for kind in source.kinds}
    rest = frozenset(known - {OBSERVATION, Event.VERIFY})
    records = history(connection, Wanted(MOST_READ, window.start, kinds=frozenset({Event.VERIFY})))
    found = history(connection, Wanted(MOST_READ, window.start, kinds=rest), others=others)
    lines = (*fold(records.entries)[:MOST_RECORDS], *fold(found.entries)[:MOST_OTHERS])
    newest_first = tuple(sorted(lines, key=lambda line: line.at, reverse=True))
    return newest_first, tuple(str(error) for error in (*broken, *found.errors))


def fold(entries: Iterable[Entry]) -> tuple[Line, ...]:
    """Join what the same person or program wrote on one day in the same words; the newest of it counts."""
    newest: dict[tuple[object, ...], tuple[Entry, int]] = {}
    for entry in entries:
        key = (entry.at.date(), entry.kind, entry.who, entry.what, entry.revision)
        first, times = newest.get(key, (entry, 0))
        newest[key] = (first, times + 1)
    return tuple(
        Line(entry.at, entry.kind, entry.who, entry.what, entry.revision, times)
        for entry, times in newest.values()
    )
