"""Backfills on SQLite, with one writing connection at a time. Keys are stored as SQLite quotes them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.source import AS_WRITTEN, Key, read_row
from pipestate.core.errors import ConfigError
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import names


def begin(connection: Connection) -> None:
    """Begin a write transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def begin_reading(connection: Connection) -> None:
    """Begin a read transaction."""
    connection.exec_driver_sql("BEGIN")


begin_end = begin


def turn(connection: Connection, address: str) -> AbstractContextManager[None]:
    """Take no lock; a second run is detected by the ledger's row."""
    return nullcontext()


def find_key(connection: Connection, backfill: Backfill) -> Key:
    """Find the table and its key; refuse a key without an index."""
    table, column = names(backfill.table)[-1], names(backfill.key)[0]
    columns = {
        str(row[0]).lower(): row
        for row in connection.exec_driver_sql(
            'SELECT name, pk, "notnull" FROM pragma_table_info(?)', (table,)
        )
    }
    if not columns:
        raise ConfigError(
            f"{backfill.block}: there is no table {backfill.table} in this database: migrate first, or correct "
            "`-- table:`"
        )
    if column.lower() not in columns:
        raise ConfigError(f"{backfill.block}: {backfill.table} has no column {column}: correct `-- key:`")
    _, pk, not_null = columns[column.lower()]
    if not (pk == 1 or _is_indexed(connection, table, column)):
        raise ConfigError(
            f"{backfill.block}: {column} of {backfill.table} has no index for the batches: name the primary key, or "
            f"CREATE INDEX first"
        )
    row = _identity(connection, backfill.table, columns)
    return Key(backfill.table, backfill.key, nullable=not not_null, row=row, text="quote({column})")


def understand(connection: Connection, update: str) -> None:
    """Let SQLite plan an UPDATE; a read-only connection skips this and leaves it to the run."""
    try:
        connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {update}", execution_options=AS_WRITTEN).all()
    except DBAPIError as error:
        if "not authorized" not in str(error.orig):
            raise


def estimate(connection: Connection, query: str) -> int:
    """Return a count, because SQLite has no estimates."""
    return int(read_row(connection, f"SELECT count(*) FROM (\n{query}\n)")[0])


def count_quickly(connection: Connection, query: str) -> int | None:
    """Count with unlimited time, because SQLite has no estimates."""
    return int(read_row(connection, query)[0])


def waited_for(connection: Connection) -> bool:
    """Return False, because SQLite does not report waiting sessions."""
    return False


def blockers(connection: Connection, table: str) -> str:
    return "another program"


def lag(connection: Connection) -> float:
    return 0.0


def wraparound_vacuum(connection: Connection, table: str) -> str | None:
    """Return None: transaction ids exist only on PostgreSQL."""
    return None


def _identity(connection: Connection, table: str, columns: dict[str, Any]) -> tuple[str, ...]:
    """List the columns that identify a row: its rowid, else its primary key."""
    try:
        connection.exec_driver_sql(f"SELECT rowid FROM {table} LIMIT 0")
    except DBAPIError:
        return tuple(f'"{row[0]}"' for row in columns.values() if row[1])
    return ("rowid",)


def _is_indexed(connection: Connection, table: str, column: str) -> bool:
    query = (
        "SELECT 1 FROM pragma_index_list(?) l, pragma_index_info(l.name) i "
        "WHERE l.partial = 0 AND i.seqno = 0 AND lower(i.name) = ?"
    )
    return connection.exec_driver_sql(query, (table, column.lower())).first() is not None
