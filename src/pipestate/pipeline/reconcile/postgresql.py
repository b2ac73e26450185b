"""Reconciliation on PostgreSQL: the lock, the age of a site, and the settings of a write."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, or_, text
from sqlalchemy.exc import DBAPIError

from pipestate.database.postgresql import begin_writing

# "pipe", "reco" as two integers.
LOCK = {"a": 0x70697065, "b": 0x7265636F}
# Overrides the role's and the database's settings in this transaction; PostgreSQL 16 has only one of them.
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
LOCK_TIMEOUT = "2s"


@contextmanager
def hold_lock(engine: Engine) -> Iterator[bool]:
    """Hold a transaction-level advisory lock on a separate connection, which also works behind PgBouncer.

    The transaction holds no snapshot, so vacuum can proceed. If the connection is lost, the work continues
    safely: each site is written only if it still matches the plan.
    """
    connection = engine.connect()
    try:
        connection.exec_driver_sql(NO_TIMEOUTS)
        yield bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), LOCK))
    finally:
        with suppress(DBAPIError):
            connection.close()


def age_hours(touched: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the hours since a time, by the server's clock."""
    return func.extract("epoch", func.now() - touched) / 3600.0


def is_older(touched: ColumnElement[Any], hours: float) -> ColumnElement[bool]:
    """Test that a time is older than the given hours, or unknown."""
    limit = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, hours * 3600)
    return or_(touched.is_(None), touched < limit)


def prepare_write(conn: Connection) -> None:
    """Use the reader's settings, because the row version is a text that depends on the time zone."""
    begin_writing(conn)
    conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
