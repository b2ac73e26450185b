"""Looking at a SQLite database before acting: here a revision is one transaction, so nobody comes between.

SQLite's SQL cannot look before it acts, as PostgreSQL's blocks do: every look goes through `connection`, which refuses
to write a script.
"""

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import MigrationError
from pipestate.drivers import on_sqlite


def connection() -> sa.Connection:
    """Return the connection to look through; refuse a script, which would act without the look."""
    if sql.is_offline():
        revision = sql.current_revision()
        raise MigrationError(
            f"{f'revision {revision}' if revision else 'this revision'} looks at the database before it changes "
            "anything, which a script for SQLite cannot: run it without --sql"
        )
    return op.get_bind()


def inspector() -> sa.Inspector:
    return sa.inspect(connection())


def is_ours(kind: str, name: str) -> bool:
    """Say whether `downgrade` may drop it: what the chain created, where the chain keeps a registry of that."""
    if not objects.kept():
        return True
    query = f"SELECT count(*) FROM {objects.registry()} WHERE kind = ? AND name = ?"
    return bool(connection().exec_driver_sql(query, (kind, name)).scalar())


def has_table(table: str) -> bool:
    return inspector().has_table(table)


def has_view(view: str) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'view' AND name = ?"
    return bool(connection().exec_driver_sql(query, (view,)).scalar())


def has_rows(table: str) -> bool:
    return bool(scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.name(table)})"))


def scalar(query: str) -> Any:
    return connection().exec_driver_sql(query).scalar()


def column_names(table: str) -> list[str]:
    return [column["name"] for column in inspector().get_columns(table)]


def column_type(table: str, column: str) -> str:
    """Read the type as it was declared; nothing where none was, which takes every value as it is."""
    query = "SELECT type FROM pragma_table_info(?) WHERE name = ?"
    return str(connection().exec_driver_sql(query, (table, column)).scalar() or "")


def index_definition(index: str) -> str | None:
    query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
    return connection().exec_driver_sql(query, (index,)).scalar()


def folded(statement: str) -> str:
    """Leave out what does not matter: case, quotes, spaces, IF NOT EXISTS, parentheses round a predicate."""
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
    """Name the columns by which rows are found again: those given, else the primary key."""
    key = tuple(given) or tuple(inspector().get_pk_constraint(table)["constrained_columns"])
    if not key:
        raise MigrationError(
            f"{table} has no primary key, by which its rows could be found again: name unique columns, "
            f"keys={{'{table}': [...]}}"
        )
    return key


def is_unique(table: str, key: Sequence[str]) -> bool:
    """Say whether the columns are the primary key, or those of a unique index over all rows."""
    wanted = {name.lower() for name in key}
    rows = connection().exec_driver_sql(
        "SELECT group_concat(lower(i.name), char(10)) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i "
        'WHERE l."unique" AND NOT l.partial GROUP BY l.name '
        "UNION ALL SELECT group_concat(lower(name), char(10)) FROM pragma_table_info(?) WHERE pk > 0",
        (table, table),
    )
    return any(names is not None and set(names.split("\n")) == wanted for (names,) in rows)


def begin() -> None:
    """Have a transaction that holds DDL: the driver by itself begins one only before a write of rows."""
    if not on_sqlite(connection(), lambda driver: driver.in_transaction):
        connection().exec_driver_sql("BEGIN IMMEDIATE")


def referring(table: str) -> list[str]:
    """List the other tables whose foreign keys point at this one."""
    return [
        other
        for other in inspector().get_table_names()
        if other != table
        and any(key["referred_table"] == table for key in inspector().get_foreign_keys(other))
    ]


def needs_more(table: str, columns: Sequence[str]) -> list[str]:
    """List its other columns that must be given a value."""
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
    """Read the last number that AUTOINCREMENT gave, where the table counts so."""
    if not has_table("sqlite_sequence"):
        return None
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    return connection().exec_driver_sql(query, (table,)).scalar()
