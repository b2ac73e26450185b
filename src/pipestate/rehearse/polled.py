"""Polled connections: one message at a time on each, many connections in one loop."""

import json
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.urls import shown, without_secrets
from pipestate.rehearse.clone import HALF_MIGRATED

Rows = list[tuple[Any, ...]]


class PolledConnection:
    """A polled connection of psycopg2."""

    def __init__(self, url: URL) -> None:
        self.url = url
        arguments = url.get_dialect()().create_connect_args(url)[1]
        with _translate_errors(url):
            self.driver: Any = psycopg2.connect(
                **arguments, async_=1, application_name="pipestate rehearse", connect_timeout=10
            )
            while not self.is_ready(wait_s=0.5):
                pass
            self.cursor = self.driver.cursor()

    @property
    def pid(self) -> int:
        return int(self.driver.get_backend_pid())

    def fileno(self) -> int:
        return int(self.driver.fileno())

    def send(self, message: str) -> None:
        """Send one message; `is_ready` tells when its answer has arrived."""
        self.cursor.execute(message)

    def is_ready(self, wait_s: float = 0.0) -> bool:
        """Tell whether the answer has arrived; raise the server's error."""
        state = self.driver.poll()
        if wait_s and state == POLL_READ:
            select.select([self], [], [], wait_s)
        elif wait_s and state == POLL_WRITE:
            select.select([], [self], [], wait_s)
        return bool(state == POLL_OK)

    def ask(self, message: str) -> Rows:
        """Send a message and wait for its rows."""
        with _translate_errors(self.url):
            self.send(message)
            while not self.is_ready(wait_s=0.5):
                pass
            return self.rows()

    def refusal(self, message: str) -> str | None:
        """Send a message; return the server's error, or None."""
        try:
            self.send(message)
            while not self.is_ready(wait_s=0.5):
                pass
        except psycopg2.Error as error:
            if self.driver.closed or error.pgcode is None:
                raise lost(self.url, error) from error
            return str(error).strip().partition("\n")[0]
        return None

    def rows(self) -> Rows:
        return list(self.cursor.fetchall()) if self.cursor.description else []

    def close(self) -> None:
        self.driver.close()


@contextmanager
def _translate_errors(url: URL) -> Iterator[None]:
    """Turn the driver's error into one sentence without a password."""
    try:
        yield
    except psycopg2.Error as error:
        raise lost(url, error) from error


def lost(url: URL, error: psycopg2.Error) -> Unreachable:
    """Build the error of a clone that does not answer."""
    reason = without_secrets(" ".join(str(error).split()), url)
    return Unreachable(f"the clone {shown(url)} does not answer: {reason}; {HALF_MIGRATED}")


@dataclass(slots=True)
class RepeatedMessage:
    """A message that is sent repeatedly on one connection, and the function for its answers.

    `take` gets the rows with the times of sending and answering. A task that the server refuses ends, with its reason.
    """

    line: PolledConnection
    message: str
    every: float
    take: Callable[[Rows, float, float], None]
    due: float = 0.0
    sent: float | None = None
    ended: str | None = None
    paused: bool = field(default=False)

    def send_when_due(self, now: float) -> None:
        if self.sent is None and self.ended is None and not self.paused and now >= self.due:
            self.sent = now
            self.line.send(self.message)

    def poll(self) -> None:
        """Take the answer, if it has arrived."""
        if self.sent is None:
            return
        try:
            if not self.line.is_ready():
                return
            rows: Rows = self.line.rows()
        except psycopg2.Error as error:
            if self.line.driver.closed or error.pgcode is None:
                raise lost(self.line.url, error) from error
            self.ended, rows = str(error).strip(), []
        now, sent = time.monotonic(), self.sent
        self.sent, self.due = None, max(sent + self.every, now)
        self.take(rows, sent, now)


def run_tasks(tasks: Sequence[RepeatedMessage], more: Any, *, longest_s: float = 0.02) -> bool:
    """Send due messages, wait for the next answer, take answers; return True if `more` can be read."""
    now = time.monotonic()
    for task in tasks:
        task.send_when_due(now)
    busy = [task.line for task in tasks if task.sent is not None]
    next_due = min(
        (task.due for task in tasks if task.sent is None and not task.paused), default=now + longest_s
    )
    wait = min(max(next_due - now, 0.001), longest_s)
    ready = select.select([more, *busy], [], [], wait)[0]
    for task in tasks:
        if task.line in ready:
            task.poll()
    return more in ready


def follow(pipe: Any, tasks: Sequence[RepeatedMessage], take: Callable[[Mapping[str, Any]], None]) -> None:
    """Run tasks until the child closes `pipe`, which carries its messages, one per line."""
    os.set_blocking(pipe.fileno(), False)
    rest = b""
    while True:
        if not run_tasks(tasks, pipe):
            continue
        read = pipe.read()
        if read == b"":
            return
        *lines, rest = (rest + (read or b"")).split(b"\n")
        for line in lines:
            take(json.loads(line))
