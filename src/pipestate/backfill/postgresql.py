"""Backfills on PostgreSQL: settings of a batch, key lookup, and lock waits."""

import ctypes
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.source import Key, read_row
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database import connections as db
from pipestate.database.drivers import sqlstate
from pipestate.database.queries import named_query
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import names

ADVISORY_CLASS = 1885958252  # "pipl": one class of advisory locks for all backfills
TURN_PATIENCE_S, TURN_PAUSE_S = 2.0, 0.05
LOCK_TIMEOUT_MS = 1_000
COUNT_PATIENCE_MS = 1_000
CANCELLED = "57014"
# The time zone and date style keep the text of keys stable. Ranges use an index regardless of statistics. A
# policy that hides rows raises an error. A batch commits asynchronously: a crash loses its ledger row
# together with its data, and the end of the run waits for all batches.
SETTINGS = {
    "lock_timeout": f"{LOCK_TIMEOUT_MS}ms",
    "enable_seqscan": "off",
    "synchronous_commit": "off",
    "row_security": "off",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "standard_conforming_strings": "on",
}
TYPES = (
    *("int2", "int4", "int8", "numeric", "uuid", "text", "varchar", "bpchar"),
    *("date", "timestamp", "timestamptz"),
)
FIND = text("SELECT pg_catalog.to_regclass(CAST(:table AS text))::oid")
KEY = named_query("backfill", "key")
WAITED_FOR = named_query("backfill", "waited_for")
LAG = named_query("backfill", "lag")
WRAPAROUND = named_query("backfill", "wraparound_vacuum")
WHO_BLOCKS = named_query("backfill", "who_blocks")


def begin(connection: Connection) -> None:
    """Begin the transaction of a batch."""
    settings = ", ".join(
        f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in SETTINGS.items()
    )
    db.send(connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", f"SELECT {settings}")


def begin_reading(connection: Connection) -> None:
    """Begin a read-only transaction that may scan a whole table; fail if a policy would hide rows."""
    db.send(
        connection,
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
        "SET LOCAL row_security = off",
        "SET LOCAL statement_timeout = 0",
    )


def begin_end(connection: Connection) -> None:
    """Begin the last transaction of a run, which waits for the disk and so for all batches."""
    connection.exec_driver_sql("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")


@contextmanager
def turn(connection: Connection, address: str) -> Iterator[None]:
    """Hold the lock of a backfill for the session; refuse if another run has it.

    The session of a killed run may live for a moment longer, so this waits briefly.
    """
    lock = f"{ADVISORY_CLASS}, {ctypes.c_int32(zlib.crc32(address.encode())).value}"
    end = time.monotonic() + TURN_PATIENCE_S
    while not read_row(connection, f"SELECT pg_catalog.pg_try_advisory_lock({lock})")[0]:
        if time.monotonic() > end:
            raise Unreachable(
                f"another run of {address} is working on this database: wait for it, or stop it"
            )
        time.sleep(TURN_PAUSE_S)
    try:
        yield
    finally:
        if not connection.invalidated:
            with suppress(DBAPIError):  # a closed connection has released the lock
                connection.exec_driver_sql(f"SELECT pg_catalog.pg_advisory_unlock({lock})")


def find_key(connection: Connection, backfill: Backfill) -> Key:
    """Find the table and its key; refuse a key without an index, because each batch would scan the table."""
    table, column = backfill.table, names(backfill.key)[0]
    rows = db.run_own(connection, KEY, relation=_oid(connection, table), column=column)
    found = rows[0] if rows else None
    if found is None or found.kind not in ("r", "p"):
        said = f"there is no table {table}" if found is None else f"{table} is no table"
        raise ConfigError(f"{backfill.block}: {said} in this database: migrate first, or correct `-- table:`")
    if not found.found:
        raise ConfigError(f"{backfill.block}: {table} has no column {column}: correct `-- key:`")
    if found.typname not in TYPES:
        raise ConfigError(
            f"{backfill.block}: {column} is of type {found.type}, which cannot be split into batches: name a key "
            "that is a "
            "number, a uuid, a text, a date or a time"
        )
    if not found.indexed:
        raise ConfigError(
            f"{backfill.block}: {column} of {table} has no index for the batches: name the primary key, or CREATE "
            f"INDEX CONCURRENTLY ON {table} ({backfill.key}) first"
        )
    return Key(table, backfill.key, str(found.type), bool(found.nullable))


def understand(connection: Connection, update: str) -> None:
    """Let the planner check an UPDATE without running it; a faulty statement raises an error."""
    read_row(connection, f"EXPLAIN (FORMAT JSON) {update}")


def estimate(connection: Connection, query: str) -> int:
    """Return the planner's row estimate for a query, without running it."""
    (plan,) = read_row(connection, f"EXPLAIN (FORMAT JSON) {query}")
    return int((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"])


def count_quickly(connection: Connection, query: str) -> int | None:
    """Run a counting query for at most a second; None after the timeout."""
    (before,) = read_row(connection, "SELECT current_setting('statement_timeout')")
    connection.exec_driver_sql("SAVEPOINT count_quickly")
    try:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {COUNT_PATIENCE_MS}")
        found = int(read_row(connection, query)[0])
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{before}'")
    except DBAPIError as error:
        if sqlstate(error) != CANCELLED:
            raise
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT count_quickly")
        return None
    return found


def waited_for(connection: Connection) -> bool:
    """Check whether another session waits for the locks of this transaction."""
    return bool(read_row(connection, WAITED_FOR)[0])


def blockers(connection: Connection, table: str) -> str:
    """Name the sessions that may hold locks on rows of the table."""
    ((who,),) = db.run_own(connection, WHO_BLOCKS, relation=_oid(connection, table))
    return str(who or "nobody any more")


def lag(connection: Connection) -> float:
    """Return the lag of the slowest replica in seconds; zero without replicas."""
    ((seconds, hidden, _),) = db.run_own(connection, LAG)
    if hidden:
        raise ConfigError(
            "--max-lag: this role may not read the lag of the replicas: GRANT pg_monitor to it, or leave the option out"
        )
    return float(seconds)


def wraparound_vacuum(connection: Connection, table: str) -> str | None:
    """Name the running anti-wraparound vacuum of the table, if any."""
    rows = db.run_own(connection, WRAPAROUND, relation=_oid(connection, table))
    return str(rows[0][0]) if rows else None


def _oid(connection: Connection, table: str) -> int | None:
    """Find the table on the search path of the project; None if it does not exist."""
    return connection.execute(FIND, {"table": table}).scalar()
