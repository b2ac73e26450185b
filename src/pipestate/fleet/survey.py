"""A pool of threads: each evaluates one database after another and reports to the main thread."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from pipestate.database.interrupt import is_stopped, stopped_together

T = TypeVar("T")
A = TypeVar("A")
PATIENCE_S = 10.0  # time for the threads to cancel their queries


def survey(tenants: Sequence[T], ask: Callable[[T], A], jobs: int, on_answer: Callable[[A], None]) -> bool:
    """Call `ask` for each item, `jobs` at a time; pass on every answer, and return True if all were asked.

    `ask` must not raise. Ctrl-C reaches only the main thread: it starts no further item, cancels running queries
    on the servers, and drops their answers.
    """
    todo: SimpleQueue[T] = SimpleQueue()
    done: SimpleQueue[A] = SimpleQueue()
    left: SimpleQueue[None] = SimpleQueue()
    for tenant in tenants:
        todo.put(tenant)
    begun: list[threading.Thread] = []
    try:
        with stopped_together():
            for _ in range(min(jobs, len(tenants))):
                begun.append(threading.Thread(target=_work, args=(todo, ask, done, left), daemon=True))
                begun[-1].start()
            for _ in tenants:
                on_answer(done.get())
    except KeyboardInterrupt:
        return False
    finally:
        _wait_for(left, len(begun))
    return True


def _work(
    todo: "SimpleQueue[T]", ask: Callable[[T], A], done: "SimpleQueue[A]", left: "SimpleQueue[None]"
) -> None:
    try:
        while not is_stopped():
            answer = ask(todo.get_nowait())
            if not is_stopped():
                done.put(answer)
    except Empty:
        return
    finally:
        left.put(None)


def _wait_for(left: "SimpleQueue[None]", number: int) -> None:
    """Wait until all threads have ended. A second Ctrl-C is ignored: an uncancelled query would keep running.

    Poll instead of `join`: before Python 3.13, an interrupted `join` marks the thread as ended.
    """
    end = time.monotonic() + PATIENCE_S
    while number:
        with suppress(KeyboardInterrupt):
            try:
                left.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                return
            number -= 1
