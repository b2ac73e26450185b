"""Session of a backfill: its engine, transactions, locks, waits, and orders to pause, resume or change the batch size."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import postgresql, sqlite
from pipestate.backfill.source import Found, Key
from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.database.drivers import message, sqlstate
from pipestate.ledger.backfills import Orders, give_orders, latest_run, read_orders
from pipestate.ledger.record import who
from pipestate.ledger.state import require_ledger
from pipestate.runbook.model import Backfill

TURN_PATIENCE_S, PAUSE_S = 2.0, 0.05
LOCK_PATIENCE_S = 30.0
LAG_PATIENCE_S = 600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
ORDERS_PAUSE_S = 0.5
QUIET_S = 60.0  # minimum time between repeated messages
GOES_ON = "what is done stays done, and the same command goes on"
LOCKED = ("55P03", "40P01", "40001")  # lock not available, deadlock, serialization failure
NOT_OUR_FAULT = ("42501",)  # missing privilege


class BackfillEngine(Protocol):
    """Interface of each engine; the modules `postgresql` and `sqlite` document the functions."""

    def begin(self, connection: Connection) -> None: ...
    def begin_reading(self, connection: Connection) -> None: ...
    def begin_end(self, connection: Connection) -> None: ...
    def take_turn(self, connection: Connection, address: str) -> bool: ...
    def give_turn(self, connection: Connection, address: str) -> None: ...
    def find_key(self, connection: Connection, backfill: Backfill) -> Key: ...
    def understand(self, connection: Connection, update: str) -> None: ...
    def estimate(self, connection: Connection, query: str) -> int: ...
    def count_quickly(self, connection: Connection, query: str) -> int | None: ...
    def waited_for(self, connection: Connection) -> bool: ...
    def blockers(self, connection: Connection, key: Key) -> str: ...
    def lag(self, connection: Connection) -> float: ...
    def wraparound_vacuum(self, connection: Connection, key: Key) -> str | None: ...


ENGINES: Mapping[str, BackfillEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def order(
    connection: Connection, found: Found, *, paused: bool | None = None, batch_rows: int | None = None
) -> Orders:
    """Write the given orders into the run's row; None keeps a value, 0 rows lets the size adapt."""
    require_ledger(connection)
    latest = latest_run(connection, found.work)
    if latest is None or not latest.is_resumable:
        raise ConfigError(
            f"{found.address} has no unfinished run to control: pipestate backfill {found.address} begins one"
        )
    orders = read_orders(connection, latest)
    if paused is not None:
        orders = replace(orders, paused_by=who() if paused else None)
    if batch_rows is not None:
        orders = replace(orders, batch_rows=batch_rows or None)
    give_orders(connection, latest, orders)
    return orders


# Session of a backfill: explicit transactions, one run at a time, bounded waits for locks and replicas.


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


@contextmanager
def turn(connection: Connection, engine: BackfillEngine, address: str) -> Iterator[None]:
    """Hold the lock of a backfill; refuse if another run has it.

    The session of a killed run may live for a moment longer, so this waits briefly.
    """
    end = time.monotonic() + TURN_PATIENCE_S
    while not engine.take_turn(connection, address):
        if time.monotonic() > end:
            raise Unreachable(f"another run of {address} is at work on this database: let it end, or stop it")
        time.sleep(PAUSE_S)
    try:
        yield
    finally:
        if not connection.invalidated:
            with suppress(DBAPIError):  # a closed connection has released the lock
                engine.give_turn(connection, address)


class Hold:
    """Bounded waits that report their reason."""

    def __init__(
        self,
        connection: Connection,
        engine: BackfillEngine,
        key: Key,
        max_lag_s: float | None,
        on_wait: Callable[[str], None],
    ) -> None:
        self.connection, self.engine, self.key = connection, engine, key
        self.max_lag_s, self.on_wait = max_lag_s, on_wait
        self.locked_since: float | None = None
        self.pause_s = FIRST_PAUSE_S
        self.quiet_until = 0.0

    def for_locks(self, error: DBAPIError) -> None:
        """Pause before the next attempt at a batch, longer each time; give up at the limit."""
        now = time.monotonic()
        if self.locked_since is None:
            self.locked_since = now
            self.on_wait(
                f"somebody keeps rows of {self.key.table} locked: trying again for {LOCK_PATIENCE_S:.0f} s"
            )
        if now - self.locked_since > LOCK_PATIENCE_S:
            who = self.engine.blockers(self.connection, self.key)
            raise Unreachable(
                f"rows of {self.key.table} stayed locked for {LOCK_PATIENCE_S:.0f} s ({reason(error)}); at work on it: "
                f"{who}; {GOES_ON}"
            ) from error
        time.sleep(self.pause_s)
        self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)

    def forget_locks(self) -> None:
        """Reset the wait limit after a successful batch."""
        self.locked_since, self.pause_s = None, FIRST_PAUSE_S

    def while_replicas_are_behind(self) -> None:
        """Wait until every replica is within the allowed lag."""
        if self.max_lag_s is None:
            return
        since = time.monotonic()
        while (behind := self.engine.lag(self.connection)) > self.max_lag_s:
            self._say_sometimes(
                f"a replica is {behind:.1f} s behind: waiting until it is at most {self.max_lag_s:g} s"
            )
            if time.monotonic() - since > LAG_PATIENCE_S:
                raise Unreachable(
                    f"a replica has been more than {self.max_lag_s:g} s behind for {LAG_PATIENCE_S / 60:.0f} minutes: "
                    f"{GOES_ON}"
                )
            time.sleep(FIRST_PAUSE_S)

    def while_wraparound_is_prevented(self) -> None:
        """Wait for an anti-wraparound vacuum of the table; batches would consume transaction ids and disk."""
        while vacuum := self.engine.wraparound_vacuum(self.connection, self.key):
            self._say_sometimes(f"waiting for {vacuum}")
            time.sleep(LONGEST_PAUSE_S)

    def while_paused(self, read: Callable[[], Orders], address: str) -> Orders:
        """Wait until another terminal resumes the run; return its orders."""
        while (orders := read()).paused_by:
            self._say_sometimes(
                f"paused by {orders.paused_by}; to go on: pipestate backfill {address} --resume"
            )
            time.sleep(ORDERS_PAUSE_S)
        return orders

    def _say_sometimes(self, what: str) -> None:
        if time.monotonic() > self.quiet_until:
            self.quiet_until = time.monotonic() + QUIET_S
            self.on_wait(what)


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
