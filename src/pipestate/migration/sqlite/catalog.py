"""The schema of a SQLite database, and the text of a CREATE TABLE as SQLite itself reads it."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op

from pipestate.database.drivers import on_sqlite
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import current_run

PROBE = ", pipestate_probe"


def can_drop(created: str, columns: Sequence[str]) -> bool:
    """Say whether SQLite drops these columns without a rebuild, once no index names them."""
    try:
        with _made(created) as (memory, table):
            for column in columns:
                memory.execute(f"ALTER TABLE {sql.quoted(table)} DROP COLUMN {sql.quoted(column)}")
    except sqlite3.Error:
        return False
    return True


def with_added_columns(created: str, left: str, now: str) -> str | None:
    """Write `created` with the columns that ADD COLUMN has since put into `left`; None if more has changed.

    >>> with_added_columns("CREATE TABLE t (a, b, UNIQUE (a))", "CREATE TABLE t (a)", "CREATE TABLE t (a, c)")
    'CREATE TABLE t (a, b, c, UNIQUE (a))'
    >>> with_added_columns("CREATE TABLE t (a, b)", "CREATE TABLE t (a)", "CREATE TABLE t (a UNIQUE)")
    """
    if now == left:
        return created
    try:
        end = _end_of_columns(left)
        added = now[end : len(now) - len(left) + end]
        if not added.startswith(",") or now != left[:end] + added + left[end:]:
            return None
        end = _end_of_columns(created)
        merged = created[:end] + added + created[end:]
        with _made(merged):
            return merged
    except (sqlite3.Error, ValueError):
        return None


def _end_of_columns(created: str) -> int:
    """Find the position at which ADD COLUMN would write."""
    with _made(created) as (memory, table):
        memory.execute(f"ALTER TABLE {sql.quoted(table)} ADD COLUMN {PROBE[2:]}")
        (text,) = memory.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return str(text).index(PROBE)


@contextmanager
def _made(created: str) -> Iterator[tuple[sqlite3.Connection, str]]:
    with closing(sqlite3.connect(":memory:")) as memory:
        for collation in re.findall(r"\bCOLLATE\s+[\"'`\[]?(\w+)", created, re.IGNORECASE):
            if collation.upper() not in ("BINARY", "NOCASE", "RTRIM"):
                memory.create_collation(collation, lambda a, b: (a > b) - (a < b))
        memory.execute(created)
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        yield memory, str(memory.execute(query).fetchone()[0])


# The schema of a SQLite database, read before a change: a revision is one transaction, so no other writer
# intervenes. Every query uses `connection`, which refuses to write a script: SQL alone cannot read first on
# SQLite.


def connection() -> sa.Connection:
    """Return the connection to read through; refuse a script, which cannot read."""
    if sql.is_offline():
        revision = current_run().revision
        raise MigrationError(
            f"{f'revision {revision}' if revision else 'this revision'} reads the database before it changes "
            "anything, which a script for SQLite cannot: upgrade without --sql"
        )
    return op.get_bind()


def inspector() -> sa.Inspector:
    return sa.inspect(connection())


def is_ours(kind: str, name: str) -> bool:
    """Say whether `downgrade` may drop the object: with a registry, only objects that the migrations created."""
    if not sql.keeps_registry():
        return True
    query = f"SELECT count(*) FROM {sql.registry()} WHERE kind = ? AND name = ?"
    return bool(connection().exec_driver_sql(query, (kind, name)).scalar())


def has_table(table: str) -> bool:
    return inspector().has_table(table)


def has_view(view: str) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'view' AND name = ?"
    return bool(connection().exec_driver_sql(query, (view,)).scalar())


def has_rows(table: str) -> bool:
    return bool(scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.quoted(table)})"))


def scalar(query: str) -> Any:
    return connection().exec_driver_sql(query).scalar()


def column_names(table: str) -> list[str]:
    return [column["name"] for column in inspector().get_columns(table)]


def column_type(table: str, column: str) -> str:
    """Read the declared type; an empty text if there is none: such a column takes every value as it is."""
    query = "SELECT type FROM pragma_table_info(?) WHERE name = ?"
    return str(connection().exec_driver_sql(query, (table, column)).scalar() or "")


def index_definition(index: str) -> str | None:
    query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
    return connection().exec_driver_sql(query, (index,)).scalar()


def folded(statement: str) -> str:
    """Remove irrelevant differences: case, quotes, spaces, IF NOT EXISTS, parentheses round a predicate."""
    text = re.sub(r'["`\[\]]|if not exists ', "", statement.lower())
    text = re.sub(r"\s+", "", text)
    head, where, predicate = text.partition(")where")
    return f"{head}{where}{predicate.strip('()').replace('false', '0').replace('true', '1')}"


def indexes(table: str) -> dict[str, str]:
    """Read the table's indexes, as they were created."""
    return attached(table, "'index'")


def attached(table: str, kinds: str = "'index', 'trigger'") -> dict[str, str]:
    """Read the table's indexes and triggers, as they were created."""
    query = (
        f"SELECT name, sql FROM sqlite_master WHERE tbl_name = ? AND type IN ({kinds}) AND sql IS NOT NULL"
    )
    return {row.name: row.sql for row in connection().exec_driver_sql(query, (table,))}


def key_of(table: str, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Name the columns that identify rows: those given, else the primary key."""
    key = tuple(given) or tuple(inspector().get_pk_constraint(table)["constrained_columns"])
    if not key:
        raise MigrationError(
            f"{table} has no primary key, so a restore could not find its rows: name unique columns, "
            f"keys={{'{table}': [...]}}"
        )
    return key


def collations_of_key(table: str, key: Sequence[str]) -> dict[str, str] | None:
    """Read the collation of each column in the primary key or unique index of these columns.

    Return None without one.
    """
    wanted = sorted(name.lower() for name in key)
    rows = connection().exec_driver_sql(
        "SELECT l.name AS of_index, lower(i.name) AS column, i.coll FROM pragma_index_list(?) AS l, "
        'pragma_index_xinfo(l.name) AS i WHERE l."unique" AND NOT l.partial AND i.key '
        "UNION ALL SELECT NULL, lower(name), 'BINARY' FROM pragma_table_info(?) WHERE pk > 0 ORDER BY 1 DESC",
        (table, table),
    )
    found: dict[str | None, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row.of_index, {})[str(row.column)] = row.coll
    return next((columns for columns in found.values() if sorted(columns) == wanted), None)


def begin() -> None:
    """Begin a transaction that holds DDL: the driver by itself begins one only before a write of rows."""
    if not on_sqlite(connection(), lambda driver: driver.in_transaction):
        connection().exec_driver_sql("BEGIN IMMEDIATE")


def referring(table: str) -> list[str]:
    """List the tables, itself included, with foreign keys to this one, in any spelling of its name."""
    rows = connection().exec_driver_sql(
        "SELECT DISTINCT m.name FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f "
        "WHERE m.type = 'table' AND lower(f.\"table\") = lower(?) ORDER BY 1",
        (table,),
    )
    return [row.name for row in rows]


def lost_by_batch_mode(table: str) -> list[str]:
    """List the parts that Alembic's batch mode would lose: SQLAlchemy does not read them."""
    created = created_as(table)
    words = " ".join(created.upper().split())
    found = [
        word
        for word in ("COLLATE", "ON CONFLICT", "STRICT", "WITHOUT ROWID")
        if re.search(rf"\b{word}\b", words)
    ]
    if computed(table):
        found.append("computed columns")
    if any(sql.literal(name) in created for name in column_names(table)):
        found.append("names in single quotes")
    return found


def needs_more(table: str, columns: Sequence[str]) -> list[str]:
    """List the other columns that require a value."""
    rows = connection().exec_driver_sql(
        'SELECT name FROM pragma_table_info(?) WHERE "notnull" AND dflt_value IS NULL', (table,)
    )
    return [row.name for row in rows if row.name not in columns]


def computed(table: str) -> list[str]:
    """List the columns that are computed from others."""
    rows = connection().exec_driver_sql("SELECT name FROM pragma_table_xinfo(?) WHERE hidden > 1", (table,))
    return [row.name for row in rows]


def created_as(table: str) -> str:
    """Read the CREATE TABLE as the file keeps it."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    return str(connection().exec_driver_sql(query, (table,)).scalar())


def plain_columns(table: str) -> list[str]:
    """List the columns that can be written."""
    rows = connection().exec_driver_sql("SELECT name FROM pragma_table_info(?)", (table,))
    return [row.name for row in rows]


def counter_of(table: str) -> int | None:
    """Read the last number that AUTOINCREMENT gave, if the table uses it."""
    if not has_table("sqlite_sequence"):
        return None
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    return connection().exec_driver_sql(query, (table,)).scalar()
