"""Watcher: requests, beside the migration, the locks that writers and readers would need.

- Every 20 ms it reads the locks of all other sessions, for attribution.
- For each probed table, `BEGIN; LOCK …; ROLLBACK` requests a writer's lock and a reader's. The interval is 5 ms
  while the migration holds a blocking lock, else 100 ms. Each probe is one message, and releases its lock at once.
- Some rows of each table that the migration writes to are read every 20 ms, to see whether one is locked.

Polled connections serve it: one message at a time on each, many connections in one loop.
"""

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.postgresql import OWN_PATH
from pipestate.database.queries import named_query
from pipestate.database.urls import shown, without_secrets
from pipestate.rehearse.child_process import Trace
from pipestate.rehearse.clone import HALF_MIGRATED, Table

Rows = list[tuple[Any, ...]]
PROBED_TABLES = 16
SAMPLED_ROWS = 100
SAMPLE_S, PROBE_S, SELDOM_S = 0.020, 0.005, 0.100
WORTH_KEEPING_S = 0.001
WRITER, READER = "ROW EXCLUSIVE", "ACCESS SHARE"
# Modes that block writers; modes that may lock rows.
BLOCKING = frozenset(("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"))
WRITING = frozenset(("RowShareLock", "RowExclusiveLock"))
SAMPLE = "SELECT ctid::text FROM ONLY {table} TABLESAMPLE SYSTEM ({percent}) LIMIT {most}"  # rows from random blocks


class PolledConnection:
    """A polled connection of psycopg2."""

    def __init__(self, url: URL) -> None:
        self.url = url
        arguments = url.get_dialect()().create_connect_args(url)[1]
        with _translate_errors(url):
            self.driver: Any = psycopg2.connect(
                **arguments, async_=1, application_name="pipestate rehearse", connect_timeout=10
            )
            self._wait()
            self.cursor = self.driver.cursor()

    @property
    def pid(self) -> int:
        return int(self.driver.get_backend_pid())

    def fileno(self) -> int:
        return int(self.driver.fileno())

    def send(self, message: str) -> None:
        """Send one message; `is_ready` tells when its answer has arrived."""
        self.cursor.execute(message)

    def is_ready(self) -> bool:
        """Tell whether the answer has arrived; raise the server's error."""
        return bool(self.driver.poll() == POLL_OK)

    def _wait(self) -> None:
        while (state := self.driver.poll()) != POLL_OK:
            select.select(
                [self] if state == POLL_READ else [], [self] if state == POLL_WRITE else [], [], 0.5
            )

    def query(self, message: str) -> Rows:
        """Send a message and wait for its rows."""
        with _translate_errors(self.url):
            self.send(message)
            self._wait()
            return self.rows()

    def prepare(self, statement: str) -> None:
        """Prepare a query of ours: no object of the project can answer it."""
        self.query(f"SET search_path = {OWN_PATH}")
        self.query(statement)

    def refusal(self, message: str) -> str | None:
        """Send a message; return the server's error, or None."""
        try:
            self.send(message)
            self._wait()
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
    paused: bool = False

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


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lock seen at one moment; `by` is the kind of session, such as `client backend`."""

    oid: int
    mode: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for a lock on a table (`kind` is its mode), or for a row (`rows`)."""

    oid: int
    kind: str
    start: float
    end: float

    @property
    def ms(self) -> float:
        return (self.end - self.start) * 1000


@dataclass(slots=True)
class Seen:
    """All sightings and waits."""

    sightings: list[Sighting] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    idle_wait_s: float = 0.0
    not_probed: dict[str, str] = field(default_factory=dict)


class Watcher:
    """The watcher of one clone: it opens its connections at the start, to disturb nothing later."""

    def __init__(self, clone: URL, tables: Sequence[Table], trace: Trace) -> None:
        self.clone, self.trace, self.seen = clone, trace, Seen()
        self.tables = {table.oid: table for table in tables[:PROBED_TABLES]}
        self.seen.not_probed |= {table.name: "too many tables" for table in tables[PROBED_TABLES:]}
        self.lines: list[PolledConnection] = []
        self.probes: dict[int, list[RepeatedMessage]] = {}
        self.rows: dict[int, RepeatedMessage] = {}
        self.locked_rows: dict[tuple[int, str], float] = {}
        for table in self.tables.values():
            self._probe(table)
        self.sampler = self._sampler()

    def _line(self) -> PolledConnection:
        self.lines.append(PolledConnection(self.clone))
        return self.lines[-1]

    def _probe(self, table: Table) -> None:
        self.probes[table.oid] = [self._lock_requests(table, mode) for mode in (WRITER, READER)]
        percent = min(100.0, 100.0 * SAMPLED_ROWS * 10 / max(table.rows, 1))
        line = self._line()
        sample = SAMPLE.format(table=table.quoted, percent=percent, most=SAMPLED_ROWS)
        readable = table.rows > 0 and line.refusal(sample) is None  # the probes report the reason
        places = ",".join(f'"{place}"' for (place,) in line.rows()) if readable else ""
        if places:
            line.prepare(named_query("rehearse", "prepare_rows", table=table.quoted, places=places))
            self.rows[table.oid] = RepeatedMessage(
                line,
                "EXECUTE pipestate_rows",
                SAMPLE_S,
                lambda rows, _sent, now: self._take_rows(table.oid, rows, now),
                paused=True,
            )

    def _lock_requests(self, table: Table, mode: str) -> RepeatedMessage:
        def take(_rows: Rows, sent: float, now: float) -> None:
            wait = Wait(table.oid, mode, sent, now)
            if self.trace.is_empty:
                self.seen.idle_wait_s = max(self.seen.idle_wait_s, now - sent)
            elif now - sent >= WORTH_KEEPING_S:
                self.seen.waits.append(wait)

        message = f"BEGIN; LOCK TABLE {table.quoted} IN {mode} MODE; ROLLBACK"
        return RepeatedMessage(self._line(), message, SELDOM_S, take)

    def _sampler(self) -> RepeatedMessage:
        line = self._line()
        ours = ", ".join(str(each.pid) for each in self.lines)
        line.prepare(named_query("rehearse", "prepare_locks", ours=ours))
        return RepeatedMessage(line, "EXECUTE pipestate_locks", SAMPLE_S, self._take_locks)

    def _take_locks(self, rows: Rows, sent: float, now: float) -> None:
        del sent
        found = [Sighting(oid, mode, by or "", now) for oid, mode, by in rows if oid in self.tables]
        self.seen.sightings += found
        blocked = {each.oid for each in found if each.mode in BLOCKING}
        written = blocked | {each.oid for each in found if each.mode in WRITING}
        if self.trace.is_empty:  # measure an empty revision like the others
            blocked = set(list(self.tables)[:2])
        for oid, probes in self.probes.items():
            for probe in probes:
                probe.every = PROBE_S if oid in blocked else SELDOM_S
                probe.due = min(probe.due, now + probe.every)
        for oid, task in self.rows.items():
            if task.paused and oid in written:
                task.paused = False
            elif oid not in written:
                task.paused = True
                self._take_rows(oid, [], now)

    def _take_rows(self, oid: int, rows: Rows, now: float) -> None:
        """Keep the moment since when each sampled row is locked; a free row ends its wait."""
        locked = {(oid, str(place)) for (place,) in rows}
        for key in [key for key in self.locked_rows if key[0] == oid and key not in locked]:
            self.seen.waits.append(Wait(oid, "rows", self.locked_rows.pop(key), now))
        for key in locked:
            self.locked_rows.setdefault(key, now)

    def wait(self, pipe: Any) -> bool:
        """Watch until the next answer; return True if `pipe` can be read."""
        tasks = [self.sampler, *(task for each in self.probes.values() for task in each), *self.rows.values()]
        return run_tasks(tasks, pipe)

    def finish(self) -> Seen:
        """End open waits, and name the tables whose probes were refused."""
        now = time.monotonic()
        for oid in self.tables:
            self._take_rows(oid, [], now)
        for oid, probes in self.probes.items():
            refused = [probe.ended for probe in probes if probe.ended and "does not exist" not in probe.ended]
            if refused:
                self.seen.not_probed[self.tables[oid].name] = refused[0].partition("\n")[0]
        return self.seen

    def close(self) -> None:
        for line in self.lines:
            line.close()
