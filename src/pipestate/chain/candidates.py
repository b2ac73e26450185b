"""The tables of a database that may be a version table: those with a column `version_num`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipestate.chain.graph import Chain
from pipestate.engines.choice import choose

if TYPE_CHECKING:
    from sqlalchemy import Connection

# More rows than any version table has: then it is something else.
MOST = 1000
# Rights are asked first: an error would end the transaction that the checks need. Below 16384 are the server's own.
POSTGRESQL = """
SELECT n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attrelid >= 16384 AND a.attname = 'version_num' AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')
  AND a.atttypid IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) {more}
ORDER BY 1, 2
"""
SQLITE = """
SELECT NULL, m.name, 1, 1 FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type = 'table' AND c.name = 'version_num' AND (c.type LIKE '%char%' OR c.type LIKE '%text%') ORDER BY 2
"""
EVERYWHERE = {"postgresql": POSTGRESQL.format(more=""), "sqlite": SQLITE}
# In a database with a schema for each tenant: the tenant's alone, and by its name where that is known.
WITHIN = {
    "postgresql": POSTGRESQL.format(
        more="AND n.nspname = :schema AND c.relname = coalesce(:table, c.relname)"
    ),
    "sqlite": SQLITE,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table, and the revisions that it holds. `visible`: on the search path, and the first of its name there."""

    schema: str | None
    table: str
    visible: bool = True
    readable: bool = True
    stored: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def quoted(self) -> str:
        """Write its name as SQL does.

        >>> Candidate("Shop", "alembic_version").quoted
        '"Shop"."alembic_version"'
        """
        parts = [part for part in (self.schema, self.table) if part]
        return ".".join('"' + part.replace('"', '""') + '"' for part in parts)

    @property
    def described(self) -> str:
        holds = " ".join(self.stored[:3]) + (" ..." if len(self.stored) > 3 else "")
        return f"{self} ({(holds or 'empty') if self.readable else 'may not be read'})"

    def matches(self, table: str, schema: str | None) -> bool:
        """Tell whether this is the table that is meant; without a schema, the one that the search path finds."""
        return self.table == table and (self.visible if schema is None else self.schema in (schema, None))

    def is_of(self, chain: Chain) -> bool:
        """Tell whether it holds revisions, and all of them are of this chain."""
        return bool(self.stored) and all(revision in chain for revision in self.stored)

    def is_foreign(self, chain: Chain) -> bool:
        """Tell whether it holds revisions, and none of them is of this chain."""
        return bool(self.stored) and not any(revision in chain for revision in self.stored)


def find_candidates(
    connection: "Connection", schema: str | None = None, table: str | None = None
) -> list[Candidate]:
    """Look through the catalogue; with `schema`, in that one alone, for a table of that name where one is given."""
    from sqlalchemy import text

    known = EVERYWHERE if schema is None else WITHIN
    query = choose(known, connection)
    rows = connection.execute(text(query), {} if schema is None else {"schema": schema, "table": table})
    return [
        Candidate(schema, table, bool(visible), bool(readable)) for schema, table, visible, readable in rows
    ]


def stored_in(connection: "Connection", candidate: Candidate) -> Candidate:
    """Add the revisions that the table holds."""
    if not candidate.readable:
        return candidate
    quote = connection.dialect.identifier_preparer.quote_identifier
    name = ".".join(quote(part) for part in (candidate.schema, candidate.table) if part)
    query = f"SELECT version_num FROM {name} LIMIT {MOST}"
    rows = connection.exec_driver_sql(query, execution_options={"no_parameters": True})
    return replace(candidate, stored=tuple(sorted(str(row[0]) for row in rows)))
