"""Ctrl-C: the query that runs is cancelled on the server, and the command says what was done.

psycopg2 hears a signal only when its query is over. With a wait callback it waits in Python, where the signal
arrives; the callback asks the server to cancel, waits for its answer, and lets KeyboardInterrupt go on. From
there it is Python's own way: transactions are rolled back, and the command line says the rest.
"""

import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pipestate.errors import PipestateError

WAIT_S = 0.5
ANSWER_S, PATIENCE = 0.1, 25  # how long to wait for the answer to a cancel, twice, and how often to ask
POLL_OK, POLL_READ, POLL_WRITE = 0, 1, 2  # of psycopg2.extensions, which is imported when it is needed
_STOPPED = threading.Event()
_ASKED = threading.Event()


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
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)


def hand_back() -> None:
    """Give Ctrl-C back to Python before code of others runs: asyncio takes it over from there, and only there."""
    if signal.getsignal(signal.SIGINT) is _hear:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _hear(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not where a query would go on that nobody is left to cancel.

    A signal that comes while psycopg2 sends a query is heard at the first instruction of `_wait`, before its `try`;
    psycopg2 would close the connection, and the server would not notice. So `_wait` is told, and leaves by itself.
    """
    if frame is not None and frame.f_code in (_wait.__code__, _cancel.__code__, cancel_until.__code__):
        _ASKED.set()
    else:
        signal.default_int_handler(number, frame)


def _wait(connection: Any) -> None:
    """Wait for the server as psycopg2 does; at Ctrl-C cancel the query and leave when the server has answered."""
    try:
        _leave_when_told()
        while not _is_ready(connection):
            _leave_when_told()
    except KeyboardInterrupt:
        _cancel(connection)
        raise


def _leave_when_told() -> None:
    """Raise KeyboardInterrupt where Ctrl-C was noted; in other threads, where all of them were told to leave."""
    is_main = threading.current_thread() is threading.main_thread()
    if _ASKED.is_set() if is_main else is_stopped():
        raise KeyboardInterrupt


def _is_ready(connection: Any, wait_s: float = WAIT_S) -> bool:
    state = connection.poll()
    if state == POLL_READ:
        select.select([connection.fileno()], [], [], wait_s)
    elif state == POLL_WRITE:
        select.select([], [connection.fileno()], [], wait_s)
    elif state != POLL_OK:
        from psycopg2 import OperationalError

        raise OperationalError("the connection is in error")
    return bool(state == POLL_OK)


def cancel_until(answered: Callable[[], bool], *connections: Any) -> None:
    """Ask the servers to cancel, until they have answered; a second Ctrl-C ends the wait.

    Once is not enough: the request comes on a way of its own, and may be there before the query. `answered` waits for
    `ANSWER_S` or so.
    """
    try:
        for _ in range(PATIENCE):
            for connection in connections:
                connection.cancel()
            if answered():
                return
    finally:
        _ASKED.clear()


def _cancel(connection: Any) -> None:
    """Have the query of a connection cancelled that this thread itself waits for."""
    try:
        cancel_until(lambda: _is_ready(connection, ANSWER_S) or _is_ready(connection, ANSWER_S), connection)
    except _driver_error():
        return  # the server's answer: the query is cancelled
    finally:
        _ASKED.clear()


def _driver_error() -> type[Exception]:
    """Import psycopg2's error where one has come: before the cancel there is no time for that."""
    from psycopg2 import Error

    error: type[Exception] = Error
    return error
