"""Connections that share the checks of a run, and the wait for an open gate.

The first connection begins alone. After a while others join, each on the first one's snapshot, so a short run opens
none of them. A connection that fails is left out.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, current_thread
from typing import Generic, TypeVar

from sqlalchemy import URL, Connection

from pipestate.core.errors import Unreachable
from pipestate.database import connections as db
from pipestate.database.interrupt import stopped_together
from pipestate.verify.read import HeldSavepoint, fence
from pipestate.verify.report import Gate, Outcome, Report

ALONE_S = 0.5
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
EVALUATIONS = 60  # the number that fits into a wait, if the longest pause allows it
REST = 4  # a pause is at least this many times as long as the evaluation, so a slow check is no load

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def share_out(
    leader: Connection,
    url: URL,
    items: Sequence[Item],
    answer: Callable[[Connection, HeldSavepoint | None, Item], Answer],
    *,
    jobs: int,
    prepare: Callable[[Connection], None],
) -> list[Answer]:
    """Answer every item, on at most `jobs` connections, in the order of the items; `prepare` gets each that joins."""
    if jobs < 2 or len(items) < 2:
        with fence(leader) as behind:
            return [answer(leader, behind, item) for item in items]
    snapshot = str(leader.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
    work = _Work(items, answer)
    over, lock = Event(), Lock()
    at_work: list[Thread] = []

    def help_out() -> None:
        try:
            with db.reader(url, snapshot=snapshot) as connection:
                with lock:
                    if over.is_set():
                        return
                    at_work.append(current_thread())
                prepare(connection)
                work.run(connection)
        except Exception as error:  # raised by the leader, if a check is left without an answer
            work.errors.append(error)

    def join_later() -> None:
        if not over.wait(ALONE_S):
            for _ in range(jobs - 1):
                Thread(target=help_out, daemon=True).start()

    Thread(target=join_later, daemon=True).start()
    try:
        with stopped_together():
            work.run(leader)
    finally:  # a thread that is still connecting finds no work when it arrives
        over.set()
        with lock:
            working = list(at_work)
        for thread in working:
            thread.join()
    return work.answers()


class _Work(Generic[Item, Answer]):
    """The items that are left, and the answers."""

    def __init__(
        self, items: Sequence[Item], answer: Callable[[Connection, HeldSavepoint | None, Item], Answer]
    ) -> None:
        self._items, self._answer = items, answer
        self._todo: SimpleQueue[int] = SimpleQueue()
        for number in range(len(items)):
            self._todo.put(number)
        self._found: dict[int, Answer] = {}
        self.errors: list[Exception] = []

    def run(self, connection: Connection) -> None:
        """Answer one item after the other, until none is left."""
        with fence(connection) as behind, suppress(Empty):
            while True:
                number = self._todo.get_nowait()
                self._found[number] = self._answer(connection, behind, self._items[number])

    def answers(self) -> list[Answer]:
        """List them in order; raise the error that left one out."""
        if len(self._found) < len(self._items):
            raise self.errors[0]
        return [self._found[number] for number in range(len(self._items))]


def wait_for_opening(
    evaluate: Callable[[], Report],
    patience_s: float,
    show: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Evaluate until the gate is open or past, or the time is over; return the last report.

    `show` gets each new list of missing checks. A connection that is lost later is tried again; if the time ends
    without one, Unreachable is raised. The first evaluation must succeed.
    """
    end = clock() + patience_s
    began = clock()
    found: Report | Unreachable = evaluate()
    shown = ""
    while not _is_settled(found) and (left := end - clock()) > 0:
        missing = what_is_missing(found)
        if missing != shown:
            show(missing)
            shown = missing
        sleep(min(left, pause_s(patience_s, clock() - began)))
        began = clock()
        try:
            found = evaluate()
        except Unreachable as error:
            found = error
    if isinstance(found, Unreachable):
        raise found
    return found


def pause_s(patience_s: float, took_s: float) -> float:
    """Return the pause before the next evaluation.

    >>> pause_s(1800, 0.1), pause_s(120, 0.1), pause_s(10, 0.1), pause_s(1800, 20.0)
    (15.0, 2.0, 1.0, 80.0)
    """
    usual = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, patience_s / EVALUATIONS))
    return max(usual, REST * took_s)


def what_is_missing(found: Report | Unreachable) -> str:
    """Name the checks that keep the gate closed, without numbers that change each time."""
    if isinstance(found, Unreachable):
        return f"{found}; asking again"
    closing = [verdict for verdict in found.verdicts() if verdict.closes]
    if not closing:
        return f"not asked at revision {found.database.revision or 'base'}"
    names = (
        f"{each.check_id} ({each.outcome})" if each.outcome is Outcome.ERRORED else each.check_id
        for each in closing
    )
    return f"missing: {', '.join(names)}"


def _is_settled(found: Report | Unreachable) -> bool:
    if isinstance(found, Unreachable):
        return False
    return found.ok or all(phase.gate is Gate.PAST for _, phase in found.phases())
