"""The history of a report: what happened in the last days, without what happens every quarter of an hour."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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
class HistoryLine:
    """Entries of the ledger that say the same: how many, the newest and the oldest of them."""

    at: datetime
    since: datetime
    kind: str
    who: str
    what: str
    revision: str | None
    times: int


def read_lines(connection: Connection, window: Window) -> tuple[tuple[HistoryLine, ...], tuple[str, ...]]:
    """Read the newest entries of the window, and why some could not be read. Observations have charts instead."""
    others, broken = installed_sources()
    known = {kind for source in (*SOURCES, *others) for kind in source.kinds}
    rest = frozenset(known - {OBSERVATION, Event.VERIFY})
    records = history(connection, Wanted(MOST_READ, window.start, kinds=frozenset({Event.VERIFY})))
    found = history(connection, Wanted(MOST_READ, window.start, kinds=rest), others=others)
    lines = (*fold_records(records.entries)[:MOST_RECORDS], *fold(found.entries)[:MOST_OTHERS])
    newest_first = tuple(sorted(lines, key=lambda line: line.at, reverse=True))
    return newest_first, tuple(str(error) for error in (*broken, *found.errors))


def fold_records(entries: Iterable[Entry]) -> tuple[HistoryLine, ...]:
    """Join the records of a phase, newest first, as long as they give the same answer."""
    lines: list[HistoryLine] = []
    newest: dict[str, int] = {}
    for entry in entries:
        phase = entry.what.partition(" ")[0]
        place = newest.get(phase)
        if place is not None and _same(lines[place], entry):
            lines[place] = replace(lines[place], since=entry.at, times=lines[place].times + 1)
        else:
            newest[phase] = len(lines)
            lines.append(_line(entry))
    return tuple(lines)


def fold(entries: Iterable[Entry]) -> tuple[HistoryLine, ...]:
    """Join what the same person or program wrote on one day in the same words, newest first."""
    lines: dict[tuple[object, ...], HistoryLine] = {}
    for entry in entries:
        key = (entry.at.date(), entry.kind, entry.who, entry.what, entry.revision)
        line = lines.get(key)
        lines[key] = replace(line, since=entry.at, times=line.times + 1) if line else _line(entry)
    return tuple(lines.values())


def _line(entry: Entry) -> HistoryLine:
    return HistoryLine(entry.at, entry.at, entry.kind, entry.who, entry.what, entry.revision, 1)


def _same(line: HistoryLine, entry: Entry) -> bool:
    return (line.who, line.what, line.revision) == (entry.who, entry.what, entry.revision)
