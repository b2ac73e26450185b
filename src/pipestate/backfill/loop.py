"""The batching loop: one transaction per batch, sized to take about 200 ms, or less if a writer waits for its rows.

Runs of a runbook's backfill (`recorded.py`) and backfills of packages subclass `BatchLoop`. They say what a batch
does, and what happens after the server refused one. The loop waits for locks, replicas and vacuum.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import postgresql, sqlite
from pipestate.backfill.source import Key
from pipestate.core.errors import PipestateError, Unreachable
from pipestate.database.connections import choose
from pipestate.database.drivers import message, sqlstate
from pipestate.runbook.model import Backfill

TARGET_S, SHORTEST_S = 0.2, 0.05
SMALLEST, FIRST, LARGEST = 10, 1_000, 50_000  # above this, PostgreSQL changes its plan and batches get slower
GROWTH, SHRINKAGE = 2.0, 0.25
PAUSE_S = 0.05
LOCK_PATIENCE_S = 30.0
LAG_PATIENCE_S = 600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
QUIET_S = 60.0  # minimum time between repeated messages
GOES_ON = "finished batches are kept; the same command continues"
LOCKED = ("55P03", "40P01", "40001")  # lock not available, deadlock, serialization failure
NOT_OUR_FAULT = ("42501",)  # missing privilege

Done = TypeVar("Done")


class BackfillEngine(Protocol):
    """Interface of each engine; the modules `postgresql` and `sqlite` document the functions."""

    def begin(self, connection: Connection) -> None: ...
    def begin_reading(self, connection: Connection) -> None: ...
    def begin_end(self, connection: Connection) -> None: ...
    def turn(self, connection: Connection, address: str) -> AbstractContextManager[None]: ...
    def find_key(self, connection: Connection, backfill: Backfill) -> Key: ...
    def understand(self, connection: Connection, update: str) -> None: ...
    def estimate(self, connection: Connection, query: str) -> int: ...
    def count_quickly(self, connection: Connection, query: str) -> int | None: ...
    def waited_for(self, connection: Connection) -> bool: ...
    def blockers(self, connection: Connection, table: str) -> str: ...
    def lag(self, connection: Connection) -> float: ...
    def wraparound_vacuum(self, connection: Connection, table: str) -> str | None: ...


ENGINES: Mapping[str, BackfillEngine] = {"postgresql": postgresql, "sqlite": sqlite}


@dataclass(frozen=True, slots=True)
class Pace:
    """Size and target duration of the next batch; `fixed` keeps the size."""

    size: int = FIRST
    target_s: float = TARGET_S
    fixed: bool = False
    largest: int = LARGEST

    def after(self, took_s: float, *, waited_for: bool = False, full: bool = True) -> "Pace":
        """Adapt to the duration of the last batch; `full` means that it had the whole size.

        >>> Pace().after(0.05).size, Pace().after(0.4).size, Pace(50, fixed=True).after(9).size
        (2000, 500, 50)
        >>> Pace().after(0.2, waited_for=True).target_s
        0.1
        """
        if self.fixed:
            return self
        target = max(self.target_s / 2, SHORTEST_S) if waited_for else min(self.target_s * 1.25, TARGET_S)
        if not full and took_s <= target:
            return replace(self, target_s=target)
        factor = min(max(target / max(took_s, 0.001), SHRINKAGE), GROWTH)
        return replace(self, target_s=target, size=min(max(int(self.size * factor), SMALLEST), self.largest))

    def smaller(self) -> "Pace":
        """Halve the size after a batch failed to get its locks.

        >>> Pace().smaller().size
        500
        """
        return self if self.fixed else replace(self, size=max(self.size // 2, SMALLEST))


def fixed_or_adapted(size: int | None, *, largest: int = LARGEST) -> Pace:
    """Return a fixed pace for a given size, else an adaptive one."""
    return Pace(largest=largest) if size is None else Pace(size, fixed=True)


class BatchLoop(ABC, Generic[Done]):
    """Batches on an autocommit connection, and waits that give up and report their reason."""

    max_lag_s: float | None = None

    def __init__(
        self, connection: Connection, table: str, pace: Pace, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        self.connection, self.engine, self.table = connection, choose(ENGINES, connection), table
        self.pace, self.on_wait = pace, on_wait
        self.locked_since: float | None = None
        self.lock_pause_s = FIRST_PAUSE_S
        self.quiet_until = 0.0

    @abstractmethod
    def batch(self, size: int) -> Done | None:
        """Run the next batch, inside its transaction; None at the end."""

    @abstractmethod
    def committed(self, done: Done) -> bool:
        """Count a batch that is committed; return whether another may follow."""

    @abstractmethod
    def refused(self, error: DBAPIError) -> None:
        """Raise an error for a batch that the server refused, or prepare a smaller one."""

    def obey(self) -> None:
        """Obey orders before a batch."""

    def walk(self) -> None:
        """Run batches to the end. A batch that meets locks is tried again, smaller, for 30 s."""
        goes_on = True
        while goes_on:
            self.wait_for_vacuum()
            self.wait_for_replicas()
            self.obey()
            began, waited = time.monotonic(), False
            try:
                with transaction(self.connection, self.engine.begin):
                    done = self.batch(self.pace.size)
                    waited = done is not None and self.engine.waited_for(self.connection)
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
                if is_locked(error):
                    self._wait_for_locks(error)
                    self.pace = self.pace.smaller()
                else:
                    self.refused(error)
                continue
            if done is None:
                return
            self.locked_since, self.lock_pause_s = None, FIRST_PAUSE_S
            goes_on = self.committed(done)
            self.pace = self.pace.after(time.monotonic() - began, waited_for=waited, full=goes_on)
            if waited:
                time.sleep(PAUSE_S)

    def _wait_for_locks(self, error: DBAPIError) -> None:
        """Pause before the next attempt at a batch, longer each time; give up at the limit."""
        now = time.monotonic()
        if self.locked_since is None:
            self.locked_since = now
            self.on_wait(
                f"another session has locked rows of {self.table}: trying again for {LOCK_PATIENCE_S:.0f} s"
            )
        if now - self.locked_since > LOCK_PATIENCE_S:
            who = self.engine.blockers(self.connection, self.table)
            raise Unreachable(
                f"rows of {self.table} stayed locked for {LOCK_PATIENCE_S:.0f} s ({reason(error)}), locked by {who}; "
                f"{GOES_ON}"
            ) from error
        time.sleep(self.lock_pause_s)
        self.lock_pause_s = min(self.lock_pause_s * 2, LONGEST_PAUSE_S)

    def wait_for_replicas(self) -> None:
        """Wait until every replica is within the allowed lag."""
        if self.max_lag_s is None:
            return
        since = time.monotonic()
        while (behind := self.engine.lag(self.connection)) > self.max_lag_s:
            self.say_sometimes(
                f"a replica is {behind:.1f} s behind: waiting until it is at most {self.max_lag_s:g} s"
            )
            if time.monotonic() - since > LAG_PATIENCE_S:
                raise Unreachable(
                    f"a replica has been more than {self.max_lag_s:g} s behind for {LAG_PATIENCE_S / 60:.0f} minutes: "
                    f"{GOES_ON}"
                )
            time.sleep(FIRST_PAUSE_S)

    def wait_for_vacuum(self) -> None:
        """Wait for an anti-wraparound vacuum of the table; batches would consume transaction ids and disk."""
        while vacuum := self.engine.wraparound_vacuum(self.connection, self.table):
            self.say_sometimes(f"waiting for {vacuum}")
            time.sleep(LONGEST_PAUSE_S)

    def say_sometimes(self, what: str) -> None:
        if time.monotonic() > self.quiet_until:
            self.quiet_until = time.monotonic() + QUIET_S
            self.on_wait(what)


@contextmanager
def transaction(connection: Connection, begin: Callable[[Connection], None]) -> Iterator[None]:
    """Begin a transaction and commit it at the end; roll back after any error."""
    try:
        begin(connection)
        yield
    except BaseException:
        if not connection.invalidated:
            with suppress(DBAPIError):  # keep the first error
                connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


class BackfillFailed(PipestateError):
    """The server refused a batch; earlier batches stay committed."""

    exit_code = 3


def is_locked(error: DBAPIError) -> bool:
    """Check whether a lock of another session caused the error, so a retry may succeed."""
    return sqlstate(error) in LOCKED or "is locked" in message(error)


def is_wrong_sql(error: DBAPIError) -> bool:
    """Check whether the statement itself is wrong: its syntax, or a missing table or column."""
    state = sqlstate(error)
    if state:
        return state.startswith(("42", "22")) and state not in NOT_OUR_FAULT
    return "no such" in message(error) or "syntax error" in message(error)


def reason(error: DBAPIError) -> str:
    """Return the server's message in one line, without its excerpts of the SQL."""
    kept = re.split(r"\n(?:LINE \d+:|CONTEXT:|\s*\^)", message(error))[0]
    return " ".join(kept.split())
