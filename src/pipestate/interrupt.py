"""Ctrl-C: the query that runs is cancelled on the server, and the command says what was done.

psycopg2 hears a signal only when its query is over. With a wait callback it waits in Python, where the signal
arrives; the callback asks the server to cancel, waits for its answer, and lets KeyboardInterrupt go on. From
there it is Python's own way: transactions are rolled back, and the command line says the rest.
"""

import select
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipestate.errors import PipestateError

if TYPE_CHECKING:
    from sqlalchemy import Connection

WAIT_S = 0.5
PATIENCE = 10  # so many waits for the server's answer to a cancel
POLL_OK, POLL_READ, POLL_WRITE = 0, 1, 2  # of psycopg2.extensions, which is imported when it is needed
_STOPPED = threading.Event()


class Interrupted(PipestateError):
    """Ctrl-C ended the command before its answer; `done` says what was done until then."""

    exit_code = 3

    def __init__(self, done: str) -> None:
        super().__init__(f"interrupted: {done}")
        self.done = done


@contextmanager
def telling(done: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into Interrupted, which says what was done."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(done()) from error


@contextmanager
def cancelled_together(connections: "Sequence[Connection]") -> Iterator[None]:
    """At Ctrl-C, which only the main thread hears, cancel what runs in the others."""
    try:
        yield
    except KeyboardInterrupt:
        for connection in connections:
            driver: Any = connection.connection.dbapi_connection
            driver.cancel()
        raise


@contextmanager
def stopped_together() -> Iterator[None]:
    """At Ctrl-C or an error in here, let every thread that waits for a server cancel its query, and leave.

    Each looks once in a while by itself: that reaches a thread that is still connecting, too.
    """
    _STOPPED.clear()
    try:
        yield
    except BaseException:
        _STOPPED.set()
        raise


def is_stopped() -> bool:
    """Say whether the threads were told to leave."""
    return _STOPPED.is_set()


def listen() -> None:
    """Let Ctrl-C through to whatever psycopg2 connection waits; for the whole process."""
    import psycopg2.extensions

    psycopg2.extensions.set_wait_callback(_wait)


def _wait(connection: Any) -> None:
    """Wait for the server as psycopg2 does; at Ctrl-C cancel the query and leave when the server has answered."""
    try:
        while not _is_ready(connection):
            _leave_when_stopped()
    except KeyboardInterrupt:
        _cancel(connection)
        raise


def _leave_when_stopped() -> None:
    if is_stopped() and threading.current_thread() is not threading.main_thread():
        raise KeyboardInterrupt


def _is_ready(connection: Any) -> bool:
    state = connection.poll()
    if state == POLL_READ:
        select.select([connection.fileno()], [], [], WAIT_S)
    elif state == POLL_WRITE:
        select.select([], [connection.fileno()], [], WAIT_S)
    elif state != POLL_OK:
        from psycopg2 import OperationalError

        raise OperationalError("the connection is in error")
    return bool(state == POLL_OK)


def _cancel(connection: Any) -> None:
    from psycopg2 import Error

    try:
        connection.cancel()
        for _ in range(PATIENCE):
            if _is_ready(connection):
                return
    except Error:
        return  # the server's answer: the query is cancelled
