"""Running checks on more than one connection, where that is worth it.

The first connection begins alone. Only when it has worked for a while do others join in, each on the first one's
snapshot; so a run that is over by then pays for none of them. One that cannot connect is done without.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, current_thread
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection

from pipestate import db
from pipestate.interrupt import stopped_together

ALONE_S = 0.5

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Within = Callable[[Connection], AbstractContextManager[Any]]


def share_out(
    leader: Connection,
    url: URL,
    items: Sequence[Item],
    answer: Callable[[Connection, Item], Answer],
    *,
    jobs: int,
    prepare: Callable[[Connection], None] = lambda _: None,
    within: Within = nullcontext,
) -> list[Answer]:
    """Answer every item, on at most so many connections, in the order of the items.

    `prepare` gets each connection that joins; each works inside of what `within` makes for it.
    """
    if jobs < 2 or len(items) < 2:
        with within(leader):
            return [answer(leader, item) for item in items]
    snapshot = str(leader.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
    work = _Work(items, answer, within)
    helpers = _Helpers(url, snapshot, jobs - 1, prepare, work)
    try:
        with stopped_together():
            helpers.wait_and_join()
            work.go_on(leader)
    finally:
        helpers.finish()
    return work.answers()


class _Work(Generic[Item, Answer]):
    """What is still to be answered, and the answers."""

    def __init__(
        self, items: Sequence[Item], answer: Callable[[Connection, Item], Answer], within: Within
    ) -> None:
        self._items, self._answer, self._within = items, answer, within
        self._todo: SimpleQueue[int] = SimpleQueue()
        for number in range(len(items)):
            self._todo.put(number)
        self._found: dict[int, Answer] = {}
        self.errors: list[Exception] = []

    def go_on(self, connection: Connection) -> None:
        """Answer one item after the other, until none is left."""
        with self._within(connection), suppress(Empty):
            while True:
                number = self._todo.get_nowait()
                self._found[number] = self._answer(connection, self._items[number])

    def answers(self) -> list[Answer]:
        """List them in order; raise what ended a helper that had taken one."""
        if len(self._found) < len(self._items):
            raise self.errors[0]
        return [self._found[number] for number in range(len(self._items))]


class _Helpers:
    """The connections that join in, each in a thread of its own."""

    def __init__(
        self,
        url: URL,
        snapshot: str,
        most: int,
        prepare: Callable[[Connection], None],
        work: "_Work[Item, Answer]",
    ) -> None:
        self._url, self._snapshot, self._most = url, snapshot, most
        self._prepare, self._work = prepare, work
        self._over, self._lock = Event(), Lock()
        self._at_work: list[Thread] = []

    def wait_and_join(self) -> None:
        """Start them when the first connection has been alone for long enough, and not at all if it ends before."""
        Thread(target=self._start, daemon=True).start()

    def finish(self) -> None:
        """Wait for those that are at work. One that is still connecting finds nothing to do, whenever it is there."""
        self._over.set()
        with self._lock:
            at_work = list(self._at_work)
        for thread in at_work:
            thread.join()

    def _start(self) -> None:
        if not self._over.wait(ALONE_S):
            for _ in range(self._most):
                Thread(target=self._help, daemon=True).start()

    def _help(self) -> None:
        try:
            with db.reader(self._url, snapshot=self._snapshot) as connection:
                if self._is_too_late():
                    return
                self._prepare(connection)
                self._work.go_on(connection)
        except Exception as error:  # raised by the leader, if a check is left without an answer
            self._work.errors.append(error)

    def _is_too_late(self) -> bool:
        with self._lock:
            if not self._over.is_set():
                self._at_work.append(current_thread())
            return self._over.is_set()
