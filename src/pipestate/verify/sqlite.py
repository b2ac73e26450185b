"""Reading a query's result on SQLite: counted while it is read, until its time is over."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from pipestate.drivers import on_sqlite
from pipestate.interrupt import is_stopped
from pipestate.runbook.engines import ledger_names
from pipestate.verify.rows import count_here, execute
from pipestate.verify.values import QueryResult


@contextmanager
def guarded(connection: Connection, timeout_s: float) -> Iterator[str]:
    """Interrupt the statements that follow when the time is over, or Ctrl-C was heard elsewhere."""
    end = time.monotonic() + timeout_s
    on_sqlite(
        connection,
        lambda driver: driver.set_progress_handler(lambda: time.monotonic() > end or is_stopped(), 10_000),
    )
    yield ""


def read_rows(connection: Connection, first: str, sql: str, most: int) -> QueryResult:
    """Read the first rows and count all."""
    return count_here(execute(connection, first + ledger_names(sql)), most)


@contextmanager
def fence(connection: Connection) -> Iterator[None]:
    """Keep nothing between reads: an error leaves nothing behind."""
    del connection
    yield
