"""Reconciliation on PostgreSQL: the lock, the age of a site, and what a write is set to."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, or_, text
from sqlalchemy.exc import DBAPIError

from pipestate.engines.postgresql import begin_writing

# "pipe", "reco" as two integers.
LOCK = {"a": 0x70697065, "b": 0x7265636F}
# For this transaction, whatever the role or the database has set; PostgreSQL 16 has only one of them.
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
LOCK_TIMEOUT = "2s"


@contextmanager
def hold_lock(engine: Engine) -> Iterator[bool]:
    """Hold an advisory lock of a transaction on a connection of its own, which works behind PgBouncer as well.

    The transaction holds no snapshot, so it keeps no vacuum waiting. Should the connection be lost on the way,
    the work goes on: each site is written only as it was planned.
    """
    connection = engine.connect()
    try:
        connection.exec_driver_sql(NO_TIMEOUTS)
        yield bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), LOCK))
    finally:
        with suppress(DBAPIError):
            connection.close()


def age_hours(touched: ColumnElement[Any]) -> ColumnElement[Any]:
    """Count the hours since a time, by the server's clock."""
    return func.extract("epoch", func.now() - touched) / 3600.0


def is_older(touched: ColumnElement[Any], hours: float) -> ColumnElement[bool]:
    """Say that a time is longer ago than that, or not known."""
    limit = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, hours * 3600)
    return or_(touched.is_(None), touched < limit)


def prepare_write(conn: Connection) -> None:
    """Use the reader's settings: in another time zone the version of a row would be another text."""
    begin_writing(conn)
    conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
