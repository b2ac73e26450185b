"""Backfills on SQLite, where one connection writes at a time. A key is kept as SQLite itself quotes it."""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.source import Key, Range
from pipestate.errors import ConfigError
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import names

AS_WRITTEN = {"no_parameters": True}


def begin(connection: Connection) -> None:
    """Begin a transaction that writes."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def begin_look(connection: Connection) -> None:
    """Begin a transaction that reads."""
    connection.exec_driver_sql("BEGIN")


begin_end = begin


def take_turn(connection: Connection, address: str) -> bool:
    """Let everybody in: where two are at work, the ledger's row tells the second of them."""
    return True


def give_turn(connection: Connection, address: str) -> None:
    """Give back what was never taken."""


def look_at(connection: Connection, backfill: Backfill) -> Key:
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
            f"{backfill.block}: {column} of {backfill.table} has no index to walk along: name the primary key, or "
            f"CREATE INDEX first"
        )
    return Key(backfill.table, backfill.key, nullable=not not_null)


def next_range(connection: Connection, key: Key, after: str | None, size: int) -> Range | None:
    """Find the keys of the next batch along the index; None where there is no further one."""
    behind = "IS NOT NULL" if after is None else f"> {key.literal(after)}"
    keys = _keys(key, behind)
    first, last = _row(connection, f"SELECT ({keys} LIMIT 1), ({keys} LIMIT 1 OFFSET {size - 1})")
    if first is None or last is not None:
        return None if first is None else Range(str(first), str(last), size, True)
    rows = f"SELECT count(*) FROM {key.table} AS k WHERE k.{key.column} {behind}"
    last, number = _row(connection, f"SELECT ({keys} DESC LIMIT 1), ({rows})")
    return Range(str(first), str(last), int(number), False)


def extremes(connection: Connection, key: Key) -> tuple[str, str] | None:
    """Find the smallest and the largest key; None where there is none."""
    keys = _keys(key, "IS NOT NULL")
    first, last = _row(connection, f"SELECT ({keys} LIMIT 1), ({keys} DESC LIMIT 1)")
    return None if first is None else (str(first), str(last))


def understand(connection: Connection, update: str) -> None:
    """Have SQLite plan an UPDATE; a connection that only reads may not even do that, and leaves it to the run."""
    try:
        connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {update}", execution_options=AS_WRITTEN).all()
    except DBAPIError as error:
        if "not authorized" not in str(error.orig):
            raise


def estimate(connection: Connection, query: str) -> int:
    """Count, for SQLite has no estimate."""
    return int(_row(connection, f"SELECT count(*) FROM (\n{query}\n)")[0])


def waited_for(connection: Connection) -> bool:
    """Say no: SQLite does not know who waits."""
    return False


def blockers(connection: Connection, key: Key) -> str:
    return "another program"


def lag(connection: Connection) -> float:
    return 0.0


def _is_indexed(connection: Connection, table: str, column: str) -> bool:
    query = (
        "SELECT 1 FROM pragma_index_list(?) l, pragma_index_info(l.name) i "
        "WHERE l.partial = 0 AND i.seqno = 0 AND lower(i.name) = ?"
    )
    return connection.exec_driver_sql(query, (table, column.lower())).first() is not None


def _row(connection: Connection, statement: str) -> Any:
    return connection.exec_driver_sql(statement, execution_options=AS_WRITTEN).one()


def _keys(key: Key, condition: str) -> str:
    """Write the query for keys in their order; the name is qualified, or ORDER BY would mean the text."""
    column = f"k.{key.column}"
    return f"SELECT quote({column}) FROM {key.table} AS k WHERE {column} {condition} ORDER BY {column}"
