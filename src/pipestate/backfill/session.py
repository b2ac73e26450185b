"""Transactions by hand, on a connection that commits every statement by itself, and one run at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.engine import BackfillEngine
from pipestate.errors import Unreachable

TURN_PATIENCE_S, PAUSE_S = 2.0, 0.05


@contextmanager
def transaction(connection: Connection, begin: Callable[[Connection], None]) -> Iterator[None]:
    """Begin a transaction, and commit it at the end; roll it back at an error, whatever it is."""
    try:
        begin(connection)
        yield
    except BaseException:
        if not connection.invalidated:
            with suppress(DBAPIError):  # what is told is the first error
                connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


@contextmanager
def turn(connection: Connection, engine: BackfillEngine, address: str) -> Iterator[None]:
    """Hold the lock of a backfill; refuse where another run has it.

    The session of a run that was killed may live on for a moment, so this waits for one.
    """
    end = time.monotonic() + TURN_PATIENCE_S
    while not engine.take_turn(connection, address):
        if time.monotonic() > end:
            raise Unreachable(f"another run of {address} is at work on this database: let it end, or stop it")
        time.sleep(PAUSE_S)
    try:
        yield
    finally:
        if not connection.invalidated:
            with suppress(DBAPIError):  # a connection that is gone has given it back
                engine.give_turn(connection, address)
