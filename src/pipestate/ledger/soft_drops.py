"""Soft-dropped objects that can be restored: name, time of the drop, size."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, inspect, text
from sqlalchemy.types import DateTime

from pipestate.core.text import many, size
from pipestate.database.connections import choose, engine_of
from pipestate.ledger.state import find_foreign_owner, has_ledger, look

# The query uses oids and only built-in functions, so every reader of the ledger can run it. `bytes` is the
# total table size.
ON_POSTGRESQL = """SELECT e.id::text AS id, e.kind, e.schema_name || '.' || e.table_name AS name, e.revision,
       ARRAY(SELECT c ->> 'name' FROM pg_catalog.jsonb_array_elements(e.columns) AS c)::text[] AS columns,
       pg_catalog.pg_total_relation_size(k.oid) AS bytes, k.reltuples::bigint AS rows, e.dropped_at AS at
  FROM pipestate.soft_drop e
  JOIN pg_catalog.pg_class k ON k.oid = CASE e.kind
         WHEN 'table' THEN (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                             WHERE n.nspname = 'pipestate_archive' AND c.relname = '_pipestate_' || e.id || '_0')
         ELSE (SELECT c.oid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                WHERE a.attname = '_pipestate_' || e.id || '_0' AND a.attinhcount = 0 AND NOT a.attisdropped
                  AND c.relkind IN ('r', 'p') ORDER BY c.relname <> e.table_name LIMIT 1) END
 WHERE e.state = 'hidden' ORDER BY e.dropped_at, e.id"""
ON_SQLITE = """SELECT aside AS id, kind, name, revision, definition, archived_at AS at FROM pipestate_archive_manifest
 WHERE aside IS NOT NULL ORDER BY archived_at, kind, name"""
# Read by oid: a name in a closed schema raises an error.
MAY_READ = """SELECT pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'pipestate' AND c.relname = 'soft_drop'"""
# Hidden columns without a ledger entry: a restore cannot find them.
ORPHANS = r"""SELECT pg_catalog.string_agg(DISTINCT a.attrelid::pg_catalog.regclass::text, ', ')
  FROM pg_catalog.pg_attribute a WHERE a.attname ~ '^_pipestate_[0-9]+_0$' AND NOT a.attisdropped AND a.attinhcount = 0
   AND EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND n.nspname <> 'pipestate_archive')
   AND NOT EXISTS (SELECT FROM pipestate.soft_drop e WHERE e.state = 'hidden'
                      AND '_pipestate_' || e.id || '_0' = a.attname)"""


@dataclass(frozen=True, slots=True)
class SoftDropped:
    """A soft-dropped table, or soft-dropped columns of a table, that can be restored."""

    id: str
    kind: str
    name: str
    revision: str
    columns: tuple[str, ...]
    dropped_at: datetime
    rows: int | None  # planner's estimate
    bytes: int | None
    also: str | None = None  # SQLite: another table dropped with this one

    @property
    def described(self) -> str:
        return f"{', '.join(self.columns)} of {self.name}" if self.columns else f"{self.kind} {self.name}"

    @property
    def size(self) -> str:
        """Rows and bytes for people, as far as they are known."""
        rows = [many(self.rows, "row")] if self.rows is not None else []
        return ", ".join(rows + ([size(self.bytes)] if self.bytes is not None else []))


def find_soft_drops(connection: Connection) -> list[SoftDropped]:
    """Find soft-dropped objects, oldest first."""
    return choose({"postgresql": _find_on_postgresql, "sqlite": _find_on_sqlite}, connection)(connection)


def readable_soft_drops(connection: Connection) -> list[SoftDropped]:
    """Find soft-dropped objects; return an empty list unless the ledger exists, is trusted and readable."""
    if not engine_of(connection).IS_FILE:
        state = look(connection)
        if find_foreign_owner(connection) is not None or not state.installed or state.missing:
            return []
        if not connection.exec_driver_sql(MAY_READ).scalar():
            return []
    return find_soft_drops(connection)


def find_orphans(connection: Connection) -> str | None:
    """Name the tables with hidden columns that have no ledger entry; SQLite hides no columns in place."""
    if engine_of(connection).IS_FILE:
        return None
    found = connection.exec_driver_sql(ORPHANS, execution_options={"no_parameters": True}).scalar()
    return str(found) if found else None


def _find_on_postgresql(connection: Connection) -> list[SoftDropped]:
    if not has_ledger(connection):
        return []
    rows = connection.exec_driver_sql(ON_POSTGRESQL, execution_options={"no_parameters": True})
    return [
        SoftDropped(
            r.id, r.kind, r.name, r.revision, tuple(r.columns), r.at, r.rows if r.rows > 0 else None, r.bytes
        )
        for r in rows
    ]


def _find_on_sqlite(connection: Connection) -> list[SoftDropped]:
    if not inspect(connection).has_table("pipestate_archive_manifest"):
        return []
    found = []
    for row in connection.execute(text(ON_SQLITE).columns(at=DateTime(timezone=True))).all():
        if not inspect(connection).has_table(row.id.strip('"')):
            continue
        definition = json.loads(row.definition)
        columns = tuple(column["name"] for column in definition.get("columns", ()))
        count = int(connection.exec_driver_sql(f"SELECT count(*) FROM {row.id}").scalar_one())
        at = row.at if row.at.tzinfo is not None else row.at.replace(tzinfo=UTC)
        also = definition.get("baseline")
        found.append(SoftDropped(row.id, row.kind, row.name, row.revision, columns, at, count, None, also))
    return found
