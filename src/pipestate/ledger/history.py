"""History, newest first: runs, sign-offs, observations, backfills, rehearsals, and entries of plugins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Select, Table, select

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import many
from pipestate.ledger.record import COMPAT, REHEARSE, Event
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import in_utc, ledger_on

if TYPE_CHECKING:
    from pipestate.core.plugins import Plugin

SIGN_OFF, OBSERVATION, BACKFILL = "sign-off", "observation", "backfill"
REHEARSAL = "rehearsal"
# History kind for each kind of rehearsal.
REHEARSALS = {REHEARSE: REHEARSAL, COMPAT: COMPAT}
# PostgreSQL accepts times outside Python's range; the server's clock stays within these bounds.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history.

    `kind` is an event or another kind of record. `who` is the person, `role` the database role.
    """

    at: datetime
    id: int
    kind: str
    who: str
    what: str
    revision: str | None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filter for history lines. Empty `kinds` selects all; `runbook` excludes lines without a runbook."""

    limit: int = 20
    since: datetime | None = None
    runbook: str | None = None
    kinds: frozenset[str] = frozenset()

    def any_of(self, *kinds: str) -> bool:
        return not self.kinds or not self.kinds.isdisjoint(kinds)

    def newest(self, table: Table, at: "Column[Any]") -> Select[Any]:
        """Select the newest candidate rows of a table, up to the limit."""
        span = at.between(self.since or EARLIEST, LATEST)
        return select(table).where(span).order_by(at.desc(), table.c.id.desc()).limit(self.limit)


@dataclass(frozen=True, slots=True)
class Source:
    """Source of history lines: its kinds, and a function that reads its newest lines.

    The entry points `pipestate.history` name such values.
    """

    kinds: tuple[str, ...]
    read: Callable[[Connection, Wanted], Sequence[Entry]]


@dataclass(frozen=True, slots=True)
class Lines:
    """History lines, and the plugin sources that failed."""

    entries: tuple[Entry, ...]
    errors: tuple[PipestateError, ...]


def history(connection: Connection, wanted: Wanted, *, others: Sequence[Source] = ()) -> Lines:
    """Read the lines, newest first; of lines with equal times, the one written later comes first."""
    require_ledger(connection)
    known = {kind for source in (*SOURCES, *others) for kind in source.kinds}
    unknown = sorted(wanted.kinds - known)
    if unknown:
        raise ConfigError(f"there is no event {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    lines: list[Entry] = []
    errors: list[PipestateError] = []
    for source in (*SOURCES, *others):
        if wanted.any_of(*source.kinds):
            try:
                lines += source.read(connection, wanted)
            except PipestateError as error:
                errors.append(error)
    lines.sort(key=lambda line: (line.at, line.id, line.kind), reverse=True)
    return Lines(tuple(lines[: wanted.limit]), tuple(errors))


def _source(
    table: str,
    at: str,
    kinds: Mapping[str, str],
    what: Callable[[Any], str],
    *,
    column: str | None = None,
    person: str = "actor",
) -> Source:
    """Build the source of a ledger table. `kinds` maps the values of `column` to kinds of history lines."""

    def read(connection: Connection, wanted: Wanted) -> list[Entry]:
        own: Table = getattr(ledger_on(connection.dialect.name), table)
        query = wanted.newest(own, own.c[at])
        if wanted.runbook is not None:
            if "runbook" not in own.c:
                return []
            query = query.where(own.c.runbook == wanted.runbook)
        if column is not None:
            query = query.where(own.c[column].in_([each for each in kinds if wanted.any_of(kinds[each])]))
        rows = [(row, row._mapping) for row in connection.execute(query)]
        return [
            Entry(
                in_utc(values[at]),
                row.id,
                kinds[values[column] if column else ""],
                values[person],
                what(row),
                row.revision,
                values.get("role"),
            )
            for row, values in rows
        ]

    return Source(tuple(kinds.values()), read)


def _what_ran(row: Any) -> str:
    phase = f"{row.runbook}/{row.phase} {row.gate}" if row.runbook else None
    took = f"{row.duration_ms / 1000:.1f} s" if row.duration_ms is not None and phase is None else None
    dropped = ", ".join(
        f"{each.get('kind', '')} {each.get('name', '')}".strip() for each in row.dropped or ()
    )
    title = row.title.rstrip(".") if row.title else None
    parts = (phase, title, f"dropped {dropped}" if dropped else None, row.reason)
    said = ": ".join(part for part in parts if part)
    return f"{said} ({took})" if said and took else said or took or row.revision or ""


def _what_was_signed(row: Any) -> str:
    return f"{row.runbook}/{row.phase}/{row.name}" + (f": {row.note}" if row.note else "")


def _what_was_observed(row: Any) -> str:
    return f"{row.name} = {row.value:.15g}: {row.source}"


def _what_was_filled(row: Any) -> str:
    state = "finished" if row.finished_at else f"up to {row.key_column} {row.last_key}"
    if row.rows_left:
        state = f"{row.rows_left:,} left"
    return f"{row.runbook}/{row.name} {state}: {row.rows_updated:,} rows of {row.table_name}"


def _what_was_rehearsed(row: Any) -> str:
    return f"{', '.join(row.files)}: {_what_was_found(row)} on {row.clone}"


def _what_was_found(row: Any) -> str:
    """Summarize a rehearsal; a failed or unscalable rehearsal has no longest wait."""
    if row.kind == COMPAT and row.broken is None:
        return "failed"
    if row.kind == COMPAT:
        return f"{row.broken} of {many(row.statements, 'statement')} would break, {row.changed} return other columns"
    if row.longest_wait_ms is not None:
        return f"longest wait {row.longest_wait_ms:.0f} ms{'' if row.bounded else ' (a lock request may never give up)'}"
    return "waits not known for so many rows" if row.scale is None else "failed"


# Backfills are dated by their last batch.
SOURCES = (
    _source("run", "recorded_at", {event: event for event in Event}, _what_ran, column="event"),
    _source("attestation", "signed_at", {"": SIGN_OFF}, _what_was_signed, person="person"),
    _source("observation", "observed_at", {"": OBSERVATION}, _what_was_observed),
    _source("backfill_progress", "updated_at", {"": BACKFILL}, _what_was_filled),
    _source("rehearsal", "rehearsed_at", REHEARSALS, _what_was_rehearsed, column="kind"),
)


def installed_sources() -> tuple[list[Source], list[PipestateError]]:
    """Load the entry points `pipestate.history`; return the sources and the errors of broken ones."""
    from pipestate.core.plugins import (
        HISTORY,
        find_plugins,
    )  # loads importlib.metadata; most commands need none

    sources: list[Source] = []
    errors: list[PipestateError] = []
    for plugin in find_plugins(HISTORY).values():
        try:
            source = plugin.load()
            if not isinstance(source, Source):
                what = (
                    f"{plugin.title} is no pipestate.ledger.history.Source: update or uninstall that package"
                )
                errors.append(ConfigError(what))
            else:
                sources.append(replace(source, read=partial(_read_of, plugin, source)))
        except PipestateError as error:
            errors.append(error)
    return sources, errors


def _read_of(plugin: "Plugin", source: Source, connection: Connection, wanted: Wanted) -> Sequence[Entry]:
    try:
        with connection.begin_nested():
            return list(source.read(connection, wanted))
    except PipestateError:
        raise
    except Exception as error:  # a plugin may raise any exception
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Unreachable(f"{plugin.title} failed: {reason}") from error
