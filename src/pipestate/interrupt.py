"""Ctrl-C: the query that runs is cancelled on the server, and the command says what was done.

psycopg2 hears a signal only when its query is over. With a wait callback it waits in Python, where the signal
arrives; the callback asks the server to cancel, and the query ends with an error of the server's.
"""

import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipestate.errors import PipestateError

if TYPE_CHECKING:
    from sqlalchemy import Connection

WAIT_S = 0.5


class Interrupted(PipestateError):
    """Ctrl-C ended the command before its answer; `done` says what was done until then."""

    exit_code = 3

    def __init__(self, done: str) -> None:
        super().__init__(f"interrupted: {done}")
        self.done = done


class _State:
    """Whether Ctrl-C was pressed since the command began."""

    pressed = False


def was_interrupted() -> bool:
    """Say whether the error at hand is the end of a query that Ctrl-C cancelled."""
    return _State.pressed


@contextmanager
def cancelling(done: Callable[[], str]) -> Iterator[None]:
    """Cancel the running query at Ctrl-C, and end with Interrupted, which says what was done."""
    from sqlalchemy.exc import DBAPIError

    listen()
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(done()) from error
    except DBAPIError as error:
        if not was_interrupted():
            raise
        raise Interrupted(done()) from error


@contextmanager
def cancelled_together(connections: "Sequence[Connection]") -> Iterator[None]:
    """At Ctrl-C, which only the main thread hears, cancel what runs in the others."""
    try:
        yield
    except KeyboardInterrupt:
        _State.pressed = True
        for connection in connections:
            driver: Any = connection.connection.dbapi_connection
            driver.cancel()
        raise


def listen() -> None:
    """Let Ctrl-C through to whatever psycopg2 connection waits; for the whole process."""
    import psycopg2.extensions

    _State.pressed = False
    psycopg2.extensions.set_wait_callback(_wait)


def _wait(connection: Any) -> None:
    """Wait for the server as psycopg2 does; at Ctrl-C cancel, and go on waiting for the server's answer."""
    from psycopg2 import OperationalError
    from psycopg2.extensions import POLL_ERROR, POLL_OK, POLL_READ, POLL_WRITE

    while True:
        try:
            state = connection.poll()
            if state == POLL_OK:
                return
            if state == POLL_READ:
                select.select([connection.fileno()], [], [], WAIT_S)
            elif state == POLL_WRITE:
                select.select([], [connection.fileno()], [], WAIT_S)
            elif state == POLL_ERROR:
                raise OperationalError("the connection is in error")
        except KeyboardInterrupt:
            if _State.pressed:
                raise  # pressed again: leave at once
            _State.pressed = True
            connection.cancel()
