"""Asking many at once: threads that each ask one database after another, and tell the thread that started them."""

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from pipestate.interrupt import is_stopped, stopped_together

T = TypeVar("T")
A = TypeVar("A")
PATIENCE_S = 10.0  # for the threads to cancel their queries


def survey(tenants: Sequence[T], ask: Callable[[T], A], jobs: int, on_answer: Callable[[A], None]) -> bool:
    """Ask each of them, `jobs` at a time, and pass every answer on as it comes; say whether all were asked.

    `ask` must not raise. At Ctrl-C, which only the main thread hears, no other is asked, and what runs is
    cancelled on the servers; those answers are dropped.
    """
    todo: SimpleQueue[T] = SimpleQueue()
    done: SimpleQueue[A] = SimpleQueue()
    for tenant in tenants:
        todo.put(tenant)
    threads = [
        threading.Thread(target=_work, args=(todo, ask, done), daemon=True)
        for _ in range(min(jobs, len(tenants)))
    ]
    try:
        with stopped_together():
            for thread in threads:
                thread.start()
            for _ in tenants:
                on_answer(done.get())
    except KeyboardInterrupt:
        return False
    finally:
        _wait_for(threads)
    return True


def _work(todo: "SimpleQueue[T]", ask: Callable[[T], A], done: "SimpleQueue[A]") -> None:
    while not is_stopped():
        try:
            tenant = todo.get_nowait()
        except Empty:
            return
        answer = ask(tenant)
        if not is_stopped():
            done.put(answer)


def _wait_for(threads: Sequence[threading.Thread]) -> None:
    end = time.monotonic() + PATIENCE_S
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, end - time.monotonic()))
