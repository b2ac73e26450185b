"""Soft-dropped objects that can be restored: name, time of the drop, size."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, inspect, text
from sqlalchemy.types import DateTime

from pipestate.core.text import listed, many, plain, size
from pipestate.database.connections import choose, engine_of, run_own
from pipestate.database.drivers import run_as_written
from pipestate.ledger.state import has_ledger, is_readable
from pipestate.ledger.tables import in_utc, query
from pipestate.project.graph import Position


@dataclass(frozen=True, slots=True)
class SoftDropped:
    """A soft-dropped table, or soft-dropped columns of a table, that can be restored.

    `is_elsewhere`: neither the search_path nor the contract names its schema. `above` lists the later revisions
    that its downgrade undoes, too; None: its revision is not applied.
    """

    id: str
    kind: str
    name: str
    revision: str
    columns: tuple[str, ...]
    dropped_at: datetime
    rows: int | None  # planner's estimate
    bytes: int | None
    also: str | None = None  # SQLite: another table dropped with this one
    is_elsewhere: bool = False
    above: tuple[str, ...] | None = None

    @property
    def described(self) -> str:
        return f"{', '.join(self.columns)} of {self.name}" if self.columns else f"{self.kind} {self.name}"

    def restore(self, alembic: Callable[[str], str]) -> str:
        """Write the command that restores this and nothing else, or what stands in its way."""
        if self.above is None:
            return f"no downgrade restores it here: revision {plain(self.revision)} is not applied"
        if not self.above:
            return alembic(f"downgrade {plain(self.revision)}-1")
        later = listed([plain(each) for each in self.above], most=5)
        return f"a downgrade below {plain(self.revision)} would undo later revisions, too: {later}"

    @property
    def size(self) -> str:
        """Rows and bytes for people, as far as they are known."""
        rows = [many(self.rows, "row")] if self.rows is not None else []
        return ", ".join(rows + ([size(self.bytes)] if self.bytes is not None else []))


def with_above(dropped: SoftDropped, position: Position) -> SoftDropped:
    """Add the later revisions that its downgrade undoes, too."""
    is_applied = dropped.revision in position.applied
    return replace(dropped, above=position.above(dropped.revision) if is_applied else None)


def find_soft_drops(connection: Connection) -> list[SoftDropped]:
    """Find soft-dropped objects, oldest first."""
    return choose({"postgresql": _find_on_postgresql, "sqlite": _find_on_sqlite}, connection)(connection)


def readable_soft_drops(connection: Connection) -> list[SoftDropped]:
    """Find soft-dropped objects; return an empty list unless the ledger exists, is trusted and readable."""
    if not engine_of(connection).IS_FILE:
        if not is_readable(connection):
            return []
        if not all(may for (may,) in run_own(connection, query("may_read_soft_drops"))):
            return []
    return find_soft_drops(connection)


def find_orphans(connection: Connection) -> str | None:
    """Name the tables with hidden columns that have no ledger entry; SQLite hides no columns in place."""
    if engine_of(connection).IS_FILE:
        return None
    found = run_as_written(connection, query("orphans")).scalar()
    return str(found) if found else None


def _find_on_postgresql(connection: Connection) -> list[SoftDropped]:
    if not has_ledger(connection):
        return []
    return [
        SoftDropped(
            r.id,
            r.kind,
            r.name,
            r.revision,
            tuple(r.columns),
            r.at,
            r.rows if r.rows > 0 else None,
            r.bytes,
            is_elsewhere=r.is_elsewhere,
        )
        for r in run_as_written(connection, query("soft_drops"))
    ]


def _find_on_sqlite(connection: Connection) -> list[SoftDropped]:
    if not inspect(connection).has_table("pipestate_archive_manifest"):
        return []
    found = []
    for row in connection.execute(
        text(query("soft_drops", "sqlite")).columns(at=DateTime(timezone=True))
    ).all():
        if not inspect(connection).has_table(row.id.strip('"')):
            continue
        definition = json.loads(row.definition)
        columns = tuple(column["name"] for column in definition.get("columns", ()))
        count = int(connection.exec_driver_sql(f"SELECT count(*) FROM {row.id}").scalar_one())
        also, at = definition.get("baseline"), in_utc(row.at)
        revision = row.revision or definition.get("revision", "")
        found.append(SoftDropped(row.id, row.kind, row.name, revision, columns, at, count, None, also))
    return found
