"""History, newest first: runs, sign-offs, observations, backfills, rehearsals, and entries of plugins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Select, Table, select

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import many
from pipestate.ledger.record import COMPAT, REHEARSE, Event
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import Ledger, in_utc, ledger_on

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


def _runs(connection: Connection, wanted: Wanted) -> list[Entry]:
    run = _ledger(connection).run
    query = wanted.newest(run, run.c.recorded_at)
    if wanted.runbook is not None:
        query = query.where(run.c.runbook == wanted.runbook)
    if wanted.kinds:
        query = query.where(run.c.event.in_(wanted.kinds))
    return [
        Entry(in_utc(row.recorded_at), row.id, row.event, row.actor, _what_ran(row), row.revision, row.role)
        for row in connection.execute(query)
    ]


def _what_ran(row: Any) -> str:
    phase = f"{row.runbook}/{row.phase} {row.gate}" if row.runbook else None
    took = f"{row.duration_ms / 1000:.1f} s" if row.duration_ms is not None and phase is None else None
    dropped = ", ".join(_dropped(each) for each in row.dropped or ())
    title = row.title.rstrip(".") if row.title else None
    parts = (phase, title, f"dropped {dropped}" if dropped else None, row.reason)
    said = ": ".join(part for part in parts if part)
    return f"{said} ({took})" if said and took else said or took or row.revision or ""


def _dropped(thing: Any) -> str:
    """Name a dropped object from its `kind` and `name`."""
    return (
        f"{thing.get('kind', '')} {thing.get('name', '')}".strip() if isinstance(thing, dict) else str(thing)
    )


def _signoffs(connection: Connection, wanted: Wanted) -> list[Entry]:
    word = _ledger(connection).attestation
    query = wanted.newest(word, word.c.signed_at)
    if wanted.runbook is not None:
        query = query.where(word.c.runbook == wanted.runbook)
    return [
        Entry(
            in_utc(row.signed_at),
            row.id,
            SIGN_OFF,
            row.person,
            f"{row.runbook}/{row.phase}/{row.name}" + (f": {row.note}" if row.note else ""),
            row.revision,
        )
        for row in connection.execute(query)
    ]


def _observations(connection: Connection, wanted: Wanted) -> list[Entry]:
    if wanted.runbook is not None:
        return []
    fact = _ledger(connection).observation
    return [
        Entry(
            in_utc(row.observed_at),
            row.id,
            OBSERVATION,
            row.actor,
            f"{row.name} = {row.value:.15g}: {row.source}",
            row.revision,
        )
        for row in connection.execute(wanted.newest(fact, fact.c.observed_at))
    ]


def _backfills(connection: Connection, wanted: Wanted) -> list[Entry]:
    """Read backfill runs, dated by their last batch."""
    run = _ledger(connection).backfill_progress
    query = wanted.newest(run, run.c.updated_at)
    if wanted.runbook is not None:
        query = query.where(run.c.runbook == wanted.runbook)
    return [
        Entry(in_utc(row.updated_at), row.id, BACKFILL, row.actor, _what_was_filled(row), row.revision)
        for row in connection.execute(query)
    ]


def _what_was_filled(row: Any) -> str:
    state = "finished" if row.finished_at else f"up to {row.key_column} {row.last_key}"
    if row.rows_left:
        state = f"{row.rows_left:,} left"
    return f"{row.runbook}/{row.name} {state}: {row.rows_updated:,} rows of {row.table_name}"


def _rehearsals(connection: Connection, wanted: Wanted) -> list[Entry]:
    if wanted.runbook is not None:
        return []
    table = _ledger(connection).rehearsal
    kinds = [kind for kind, named in REHEARSALS.items() if wanted.any_of(named)]
    query = wanted.newest(table, table.c.rehearsed_at).where(table.c.kind.in_(kinds))
    return [
        Entry(
            in_utc(row.rehearsed_at),
            row.id,
            REHEARSALS[row.kind],
            row.actor,
            f"{', '.join(row.files)}: {_what_was_found(row)} on {row.clone}",
            row.revision,
        )
        for row in connection.execute(query)
    ]


def _what_was_found(row: Any) -> str:
    """Summarize a rehearsal; a failed or unscalable rehearsal has no longest wait."""
    if row.kind == COMPAT and row.broken is None:
        return "failed"
    if row.kind == COMPAT:
        return f"{row.broken} of {many(row.statements, 'statement')} would break, {row.changed} return other columns"
    if row.longest_stall_ms is not None:
        return f"longest wait {row.longest_stall_ms:.0f} ms{'' if row.bounded else ', not bounded'}"
    return "waits not known for so many rows" if row.scale is None else "failed"


def _ledger(connection: Connection) -> Ledger:
    return ledger_on(connection.dialect.name)


SOURCES = (
    Source(tuple(Event), _runs),
    Source((SIGN_OFF,), _signoffs),
    Source((OBSERVATION,), _observations),
    Source((BACKFILL,), _backfills),
    Source((REHEARSAL, COMPAT), _rehearsals),
)


def installed_sources() -> tuple[list[Source], list[PipestateError]]:
    """Load the entry points `pipestate.history`; return the sources and the errors of broken ones."""
    from pipestate.core.plugins import histories  # loads importlib.metadata, which most commands do not need

    sources: list[Source] = []
    errors: list[PipestateError] = []
    for plugin in histories().values():
        try:
            sources.append(_load(plugin))
        except PipestateError as error:
            errors.append(error)
    return sources, errors


def _load(plugin: "Plugin") -> Source:
    source = plugin.load()
    if not isinstance(source, Source):
        raise ConfigError(
            f"{plugin.title} is no pipestate.ledger.history.Source: update or uninstall that package"
        )

    def read(connection: Connection, wanted: Wanted) -> Sequence[Entry]:
        try:
            with connection.begin_nested():
                return list(source.read(connection, wanted))
        except PipestateError:
            raise
        except Exception as error:  # a plugin may raise any exception
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Unreachable(f"{plugin.title} failed: {reason}") from error

    return replace(source, read=read)
