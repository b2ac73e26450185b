"""Version table of a database: candidates are the tables with a column `version_num`."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipestate.core.errors import ConfigError
from pipestate.database.connections import choose
from pipestate.database.drivers import run_as_written
from pipestate.project.find import Project
from pipestate.project.graph import FOUND, Migrations, Position
from pipestate.project.syntax import UNKNOWN, Names, bound, called_name, literal, parse, read_source

if TYPE_CHECKING:
    from sqlalchemy import Connection


# A table with more rows than this is not a version table.
MOST = 1000
# Check privileges first: an error would end the checks' transaction. OIDs below 16384 are system objects.
POSTGRESQL = """
SELECT n.nspname, c.relname, pg_table_is_visible(c.oid),
       has_schema_privilege(n.oid, 'USAGE')
       AND has_column_privilege(c.oid, a.attnum, 'SELECT')
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE {place} AND a.attname = 'version_num' AND a.attnum > 0 AND NOT a.attisdropped
  AND c.relkind IN ('r', 'p')
  AND a.atttypid IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
ORDER BY 1, 2
"""
SQLITE = """
SELECT NULL, m.name, 1, 1 FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type = 'table' AND c.name = 'version_num' AND (c.type LIKE '%char%' OR c.type LIKE '%text%')
ORDER BY 2
"""
EVERYWHERE = "a.attrelid >= 16384"
# In a database with one schema per tenant: only the tenant's tables, by name if it is known. The subquery lets
# PostgreSQL find them by index, without reading the tables of all tenants.
WITHIN = (
    "c.relnamespace = (SELECT s.oid FROM pg_namespace s WHERE s.nspname = :schema) "
    "AND c.relname = coalesce(:table, c.relname)"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table and its revisions. `visible`: it is the first of its name on the search path."""

    schema: str | None
    table: str
    visible: bool = True
    readable: bool = True
    stored: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def quoted(self) -> str:
        """Write the quoted name for SQL.

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
        """Tell whether this is the named table; without a schema, the search path must find it."""
        return self.table == table and (self.visible if schema is None else self.schema in (schema, None))

    def is_of(self, migrations: Migrations) -> bool:
        """Tell whether it holds revisions that all belong to this project."""
        return bool(self.stored) and all(revision in migrations for revision in self.stored)

    def is_foreign(self, migrations: Migrations) -> bool:
        """Tell whether it holds only revisions of other projects."""
        return bool(self.stored) and not any(revision in migrations for revision in self.stored)


def find_candidates(
    connection: "Connection", schema: str | None = None, table: str | None = None
) -> list[Candidate]:
    """Search the catalogue for candidates; `schema` and `table` restrict the search."""
    from sqlalchemy import text

    place = WITHIN if schema else EVERYWHERE
    query = choose({"postgresql": POSTGRESQL.format(place=place), "sqlite": SQLITE}, connection)
    rows = connection.execute(text(query), {"schema": schema, "table": table})
    return [Candidate(schema, table, bool(seen), bool(readable)) for schema, table, seen, readable in rows]


def stored_in(connection: "Connection", candidate: Candidate) -> Candidate:
    """Read the revisions of the table."""
    if not candidate.readable:
        return candidate
    rows = run_as_written(connection, f"SELECT version_num FROM {candidate.quoted} LIMIT {MOST}")
    return replace(candidate, stored=tuple(sorted(str(row[0]) for row in rows)))


# Version table named in env.py, read from its syntax.


ARGUMENTS = ("version_table", "version_table_schema")


@dataclass(frozen=True, slots=True)
class Declared:
    """A version table by name; `source` is the location of the name.

    `certain`: every run of Alembic uses this table, or Alembic's default if the name is None. If it is
    uncertain, only a run of env.py would reveal the table.
    """

    table: str | None = None
    schema: str | None = None
    source: str = ""
    certain: bool = True

    @property
    def named(self) -> bool:
        return bool(self.table or self.schema)


def declared_in(env: Path) -> Declared:
    """Read the arguments of `configure(...)`; uncertain if they are computed or defined elsewhere."""
    if not env.is_file():
        return Declared(certain=False)
    tree = parse(read_source(env), env)
    calls = [found for statement in tree.body for found in _calls(statement, bound(tree.body))]
    found = {
        tuple(_argument(call, name, names) for name in ARGUMENTS)
        for names, call in calls
        if called_name(call) == "configure"
    }
    tables, schemas = ({each[number] for each in found} for number in (0, 1))
    if not found or len(tables) > 1 or len(schemas) > 1 or UNKNOWN in tables | schemas:
        return Declared(certain=False)
    ((table, schema),) = found
    if not isinstance(table, str | None) or not isinstance(schema, str | None):
        return Declared(certain=False)
    return Declared(table, schema, str(env) if table or schema else "")


def _argument(call: ast.Call, name: str, names: Names) -> object:
    """Read an argument; None if it is omitted. A dictionary behind `**` is readable if it is a literal."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return literal(keyword.value, names)
    for given in (keyword.value for keyword in call.keywords if keyword.arg is None):
        written = names.get(given.id) if isinstance(given, ast.Name) else given
        if not isinstance(written, ast.Dict) or None in written.keys:
            return UNKNOWN
        for key, value in zip(written.keys, written.values, strict=True):
            if literal(key, names) == name:
                return literal(value, names)
    return None


def _calls(node: ast.AST, names: Names) -> Iterator[tuple[Names, ast.Call]]:
    """Find all calls, each with its visible names: names of a function hide those of the module."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        names = {**names, **{each.arg: None for each in given}, **bound(node.body)}
    if isinstance(node, ast.Call):
        yield names, node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, names)


# Find the version table of a database without running the project's env.py.
#
# 1. The option `--version-table [SCHEMA.]TABLE`.
# 2. A literal `version_table` or `version_table_schema` in env.py, else in the configuration.
# 3. `alembic_version`, if env.py certainly sets neither.
# 4. If env.py is uncertain: `alembic_version` on the search path, else a search through the catalogue for
#    tables with a `version_num`.
#
# All rows of the table must belong to the project. An uncertain result is an error that names the candidates:
# a wrong guess would report a database in use as empty.


DEFAULT = "alembic_version"
HOW_TO_NAME_A_TABLE = "name the right one with --version-table [SCHEMA.]TABLE"


# Longest useful list of candidates; a database with one schema per tenant has thousands.
MOST_TABLES = 50
Read = Callable[[Candidate], Candidate]


@dataclass(frozen=True, slots=True)
class Locator:
    """The migrations and the declaration of their version table: returns the position of a database."""

    migrations: Migrations
    declared: Declared
    schema: str | None = None

    def __call__(self, connection: "Connection") -> Position:
        """Read the position on this connection, in its current snapshot."""
        table = self._table(connection)
        if table is None:
            return self.migrations.position(())
        set_found_version_table(connection, table.quoted)
        return replace(self.migrations.position(table.stored), version_table=table.quoted)

    def stored(self, connection: "Connection") -> tuple[str, ...] | None:
        """Read the revisions in the version table, including unknown ones; None if the table is missing."""
        table = self._table(connection, unknown=True)
        return None if table is None else table.stored

    def within(self, schema: str) -> "Locator":
        """Restrict the search to this schema of a tenant, which must be the first on the path."""
        return Locator(self.migrations, replace(self.declared, schema=None), schema)

    def _table(self, connection: "Connection", *, unknown: bool = False) -> Candidate | None:
        known = self.declared.table or (DEFAULT if self.declared.certain else None)
        candidates = find_candidates(connection, self.schema, known)
        return choose_table(
            self.migrations, self.declared, candidates, partial(stored_in, connection), unknown=unknown
        )


def set_found_version_table(connection: "Connection", table: str | None) -> None:
    """Store the version table with a connection, also if another connection to the database found it."""
    if table is not None:
        connection.info[FOUND] = table


def locator(project: Project, migrations: Migrations, option: str | None = None) -> Locator:
    """Collect the version table's name from the option, env.py and the configuration."""
    if option is not None:
        before, _, last = option.rpartition(".")
        if not last:
            raise ConfigError(f"--version-table {option}: write TABLE or SCHEMA.TABLE")
        return Locator(migrations, Declared(last, before or None, "--version-table"))
    in_env = declared_in(project.scripts / "env.py")
    table, schema = (project.option(name) for name in ARGUMENTS)
    if not in_env.named and (table or schema):
        return Locator(migrations, Declared(table, schema, str(project.config)))
    return Locator(migrations, in_env)


def choose_table(
    migrations: Migrations,
    declared: Declared,
    candidates: Sequence[Candidate],
    read: Read,
    *,
    unknown: bool = False,
) -> Candidate | None:
    """Choose the migrations' version table among the candidates; None before the first migration.

    With `unknown` it may hold revisions that the project lacks.
    """
    name = declared.table or DEFAULT
    matching = (each for each in candidates if each.matches(name, declared.schema))
    table = next(map(read, matching), None)
    if declared.named and table is None:
        _refuse_elsewhere(migrations, declared, candidates, read)
    elif not declared.named and (
        table is None or not (table.is_of(migrations) or (declared.certain and table.stored))
    ):
        named = [each for each in candidates if each.table == DEFAULT]
        table = _by_content(migrations, named if declared.certain else candidates, read)
    if table is not None and not table.readable:
        message = f"the version table {table} may not be read: grant SELECT on it, and USAGE on its schema"
        raise ConfigError(message)
    foreign = [revision for revision in table.stored if revision not in migrations] if table else []
    if foreign and not unknown:
        raise ConfigError(
            f"the database is at revision {' '.join(foreign)} ({table}), which this project does not have: "
            "name the right project with --config, or its version table with --version-table [SCHEMA.]TABLE"
        )
    return table


def _refuse_elsewhere(
    migrations: Migrations, declared: Declared, candidates: Sequence[Candidate], read: Read
) -> None:
    """Refuse a table of the declared name outside the search path, and a possibly misspelt option."""
    name = declared.table or DEFAULT
    elsewhere = [each for each in candidates if each.table == name and declared.schema is None]
    if declared.source == "--version-table":
        elsewhere += [each for each in map(read, candidates[:MOST_TABLES]) if each.is_of(migrations)]
    if elsewhere:
        raise ConfigError(
            f"{declared.source} names the version table {name}, which the search path does not find; there "
            f"is {_listed(elsewhere)}: {HOW_TO_NAME_A_TABLE}"
        )


def _by_content(migrations: Migrations, candidates: Sequence[Candidate], read: Read) -> Candidate | None:
    """Return the one table with rows of this project; all others must certainly belong to other projects."""
    if len(candidates) > MOST_TABLES:
        message = f"{len(candidates):,} tables could be the version table: {HOW_TO_NAME_A_TABLE}"
        raise ConfigError(message)
    tables = [read(each) for each in candidates]
    fitting = [each for each in tables if each.is_of(migrations)]
    doubtful = [each for each in tables if each not in fitting and not each.is_foreign(migrations)]
    if len(fitting) == 1 and not doubtful:
        return fitting[0]
    if len(tables) > 1:
        raise ConfigError(
            f"several tables could be the version table: {_listed(tables)}; {HOW_TO_NAME_A_TABLE}"
        )
    return tables[0] if tables else None


def _listed(candidates: Sequence[Candidate]) -> str:
    return ", ".join(each.described for each in candidates)
