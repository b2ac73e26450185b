"""Ctrl-C: cancel the running query on the server, and report the work done so far.

psycopg2 handles a signal only after its query ends. With a wait callback it waits in Python, where the signal
arrives. The callback tells the server to cancel, waits for its answer, and re-raises KeyboardInterrupt.
Python then rolls back the transactions, and the command line prints the report.
"""

import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pipestate.core.errors import PipestateError

WAIT_S = 0.5
ANSWER_S, PATIENCE = 0.1, 25  # wait for the answer to a cancel (twice), and number of requests
POLL_OK, POLL_READ, POLL_WRITE = 0, 1, 2  # values of psycopg2.extensions, which is imported on demand
_STOPPED = threading.Event()
_INTERRUPTED = threading.Event()


class Interrupted(PipestateError):
    """Ctrl-C ended the command early; `done` describes the work done until then."""

    exit_code = 3

    def __init__(self, done: str) -> None:
        super().__init__(f"interrupted: {done}")
        self.done = done


@contextmanager
def explain_interrupt(done: Callable[[], str]) -> Iterator[None]:
    """Translate Ctrl-C into Interrupted, with a description of the work done."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(done()) from error


@contextmanager
def stopped_together() -> Iterator[None]:
    """On Ctrl-C or an error in this block, make every waiting thread cancel its query and leave.

    Each thread checks the flag periodically, which also reaches a thread that is still connecting.
    """
    _STOPPED.clear()
    try:
        yield
    except BaseException:
        _STOPPED.set()
        raise


def is_stopped() -> bool:
    """Tell whether the threads must leave."""
    return _STOPPED.is_set()


def listen() -> None:
    """Make Ctrl-C interrupt any waiting psycopg2 connection of this process."""
    import psycopg2.extensions

    psycopg2.extensions.set_wait_callback(_wait)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)


def hand_back() -> None:
    """Restore Python's Ctrl-C handler before third-party code runs: asyncio replaces only that handler."""
    if signal.getsignal(signal.SIGINT) is _hear:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _hear(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, except at points where the query would continue uncancelled.

    A signal during the sending of a query arrives at the first instruction of `_wait`, before its `try`. Then
    psycopg2 would close the connection, and the server would continue. The flag makes `_wait` leave by itself instead.
    """
    if frame is not None and frame.f_code in (_wait.__code__, _cancel.__code__, cancel_until.__code__):
        _INTERRUPTED.set()
    else:
        signal.default_int_handler(number, frame)


def _wait(connection: Any) -> None:
    """Wait for the server like psycopg2; on Ctrl-C cancel the query, and leave after the server's answer."""
    try:
        _leave_if_interrupted()
        while not _is_ready(connection):
            _leave_if_interrupted()
    except KeyboardInterrupt:
        _cancel(connection)
        raise


def _leave_if_interrupted() -> None:
    """Raise KeyboardInterrupt after a noted Ctrl-C; in other threads, after the common stop flag."""
    is_main = threading.current_thread() is threading.main_thread()
    if _INTERRUPTED.is_set() if is_main else is_stopped():
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
    """Send cancel requests until the servers have answered; a second Ctrl-C ends the wait.

    One request may be too early: it uses a separate connection and can overtake the query. `answered` waits for
    about `ANSWER_S`.
    """
    try:
        for _ in range(PATIENCE):
            for connection in connections:
                connection.cancel()
            if answered():
                return
    finally:
        _INTERRUPTED.clear()


def _cancel(connection: Any) -> None:
    """Cancel the query for which this thread waits."""
    try:
        cancel_until(lambda: _is_ready(connection, ANSWER_S) or _is_ready(connection, ANSWER_S), connection)
    except _driver_error():
        return  # the server reports the cancelled query
    finally:
        _INTERRUPTED.clear()


def _driver_error() -> type[Exception]:
    """Import psycopg2's error class after an error: an import before the cancel would delay it."""
    from psycopg2 import Error

    error: type[Exception] = Error
    return error
