"""The rows of a table, from COPY to COPY: what a pipe holds is all that is in memory.

Two threads wait for the two servers; the main thread waits for them, where Ctrl-C arrives.
"""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipestate.interrupt import ANSWER_S, cancel_until
from pipestate.rehearse.copying.inventory import Inventory, Relation
from pipestate.rehearse.copying.session import ask, blocking
from pipestate.rehearse.copying.snapshot import send_settings

CHUNK = 2**18
TELL_EVERY_S = 0.1


class SourceFailed(Exception):
    """Production did not give the rows of a table."""


class CloneFailed(Exception):
    """The clone did not take the rows of a table."""


@dataclass(slots=True)
class Taken:
    """The end of the pipe from which the clone reads; counts what went through."""

    descriptor: int
    count: int = 0

    def read(self, size: int) -> bytes:
        data = os.read(self.descriptor, size)
        self.count += len(data)
        return data


def copy_table(
    source: Any, clone: Any, table: Relation, found: Inventory, on_bytes: Callable[[int], None]
) -> int:
    """Copy the rows of one table, in a transaction of its own on the clone; return how many there were.

    TRUNCATE lets COPY write frozen rows: nothing is left to do for VACUUM. Production's path is for functions in CHECK
    constraints that name tables without a schema.
    """
    columns = f" ({table.columns})" if table.columns else ""
    send_settings(clone, found.path)
    ask(clone, f"TRUNCATE ONLY {table.quoted}")
    out = f"COPY {table.quoted}{columns} TO STDOUT (ENCODING '{found.encoding}')"
    into = f"COPY {table.quoted}{columns} FROM STDIN (FREEZE, ENCODING '{found.encoding}')"
    rows = _stream(source, out, clone, into, on_bytes)
    clone.commit()
    return rows


def _stream(source: Any, out: str, clone: Any, into: str, on_bytes: Callable[[int], None]) -> int:
    reading, writing = os.pipe()
    taken = Taken(reading)
    with _hearing() as heard, blocking(), ThreadPoolExecutor(2) as threads:
        sent = threads.submit(_send, source, out, writing)
        took = threads.submit(_take, clone, into, taken)
        futures: tuple[Future[Any], ...] = (sent, took)
        try:
            while wait(futures, TELL_EVERY_S).not_done:
                on_bytes(taken.count)
        except KeyboardInterrupt:
            cancel_until(lambda: not wait(futures, ANSWER_S).not_done, source, clone)
            raise
    return _result(sent, took, heard)


def _send(source: Any, statement: str, descriptor: int) -> None:
    with os.fdopen(descriptor, "wb", CHUNK) as pipe, source.cursor() as cursor:
        cursor.copy_expert(statement, pipe)


def _take(clone: Any, statement: str, taken: Taken) -> int:
    try:
        with clone.cursor() as cursor:
            cursor.copy_expert(statement, taken, size=CHUNK)
            return int(cursor.rowcount)
    finally:
        os.close(taken.descriptor)


def _result(sent: "Future[None]", took: "Future[int]", heard: list[BaseException]) -> int:
    """Raise what went wrong first: a clone that fails closes the pipe, and so ends the other side, too."""
    failed = took.exception()
    if failed is not None:
        raise CloneFailed from (heard[0] if heard else failed)
    failed = sent.exception()
    if failed is not None:
        raise SourceFailed from failed
    return took.result()


@contextmanager
def _hearing() -> Iterator[list[BaseException]]:
    """Collect the errors that psycopg2 prints instead of raising: of a server that says why it ends, the why."""
    heard: list[BaseException] = []
    hook = sys.excepthook
    sys.excepthook = lambda _kind, error, _trace: heard.append(error.__cause__ or error)
    try:
        yield heard
    finally:
        sys.excepthook = hook
