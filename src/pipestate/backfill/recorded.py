"""Run of a runbook's backfill, recorded in the ledger.

1. Check the ledger, the table, an index on the key, and the UPDATE. This step writes nothing.
2. Take the lock: one run per backfill at a time.
3. Resume the last run, or start a new one if rows are left to update.
4. Walk along the key in batches (`loop.py`): find the range, update it, record the progress, commit. The first
   batch that updates rows also proves that they stop matching. Each batch first obeys the orders of another
   terminal.
5. Count the remaining rows. Rows that writers added behind the walk get a second walk.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import forecast
from pipestate.backfill.loop import (
    ENGINES,
    BackfillFailed,
    BatchLoop,
    fixed_or_adapted,
    reason,
    transaction,
)
from pipestate.backfill.source import AS_WRITTEN, Found, Key, Range, next_range
from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress as Tell
from pipestate.core.progress import no_progress
from pipestate.core.text import many
from pipestate.database.connections import choose
from pipestate.database.interrupt import explain_interrupt
from pipestate.ledger import backfills as ledger
from pipestate.ledger.backfills import Orders, Progress
from pipestate.ledger.record import who
from pipestate.ledger.state import require_ledger
from pipestate.runbook.update import with_range

ORDERS_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class How:
    """Options of a run: fixed batch size, allowed replica lag, and callbacks for progress and waits."""

    batch_size: int | None = None
    max_lag_s: float | None = None
    on_progress: Tell = no_progress
    on_wait: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """Result of a run. `resumed_after` is the key at which an earlier run stopped."""

    address: str
    table: str
    key: str
    rows_updated: int
    rows_left: int
    batches: int
    seconds: float
    resumed_after: str | None = None

    @property
    def exit_code(self) -> int:
        return 1 if self.rows_left else 0


def run(connection: Connection, found: Found, how: How, *, revision: str | None = None) -> BackfillResult:
    """Run a backfill on an autocommit connection; each batch begins its transaction explicitly."""
    engine = choose(ENGINES, connection)
    require_ledger(connection)
    with transaction(connection, engine.begin_reading):
        key = forecast.find_key(connection, found.backfill)
    with engine.turn(connection, found.address):
        one = RecordedRun(connection, found, key, how, revision)
        with explain_interrupt(one.summary):
            return one.to_its_end()


def order(
    connection: Connection, found: Found, *, paused: bool | None = None, batch_rows: int | None = None
) -> Orders:
    """Write the given orders into the run's row; None keeps a value, 0 rows lets the size adapt."""
    require_ledger(connection)
    latest = ledger.latest_run(connection, found.work)
    if latest is None or not latest.is_resumable:
        raise ConfigError(
            f"{found.address} has no unfinished run to control: pipestate backfill {found.address} begins one"
        )
    orders = ledger.read_orders(connection, latest)
    if paused is not None:
        orders = replace(orders, paused_by=who() if paused else None)
    if batch_rows is not None:
        orders = replace(orders, batch_rows=batch_rows or None)
    ledger.give_orders(connection, latest, orders)
    return orders


class RecordedRun(BatchLoop[tuple[Progress, Range]]):
    """One run: its position and its steps."""

    def __init__(
        self, connection: Connection, found: Found, key: Key, how: How, revision: str | None
    ) -> None:
        super().__init__(connection, key.table, fixed_or_adapted(how.batch_size), how.on_wait)
        self.max_lag_s = how.max_lag_s
        self.backfill, self.work, self.key = found.backfill, found.work, key
        self.how, self.revision = how, revision
        self.progress = Progress()
        self.ordered_rows: int | None = None
        self.is_proven = False
        self.updated = self.batches = 0

    def to_its_end(self) -> BackfillResult:
        """Walk from the last position and count the remaining rows; repeat once if rows are left."""
        began = time.monotonic()
        resumed = self._find_start()
        if not self.progress.finished:
            self.walk()
            left = self._left()
            if 0 < left < self.progress.rows_updated:
                self.progress = replace(self.progress, last_key=None)
                self.walk()
                left = self._left()
            self._end(left)
        return BackfillResult(
            self.work.address,
            self.key.table,
            self.key.column,
            self.updated,
            self.progress.rows_left or 0,
            self.batches,
            time.monotonic() - began,
            resumed,
        )

    def summary(self) -> str:
        """Summarize the work done, for the message after an interrupt."""
        done = f"{many(self.updated, 'row')} of {self.key.table} updated in {many(self.batches, 'batch', 'batches')}"
        at = f", up to {self.key.column} {self.progress.last_key}" if self.progress.last_key else ""
        return f"{done}{at}; the same command continues there"

    def obey(self) -> None:
        """Wait while the run is paused, and apply the ordered batch size."""
        if self.progress.id is None:
            return
        while (orders := ledger.read_orders(self.connection, self.progress)).paused_by:
            self.say_sometimes(
                f"paused by {orders.paused_by}; to continue: pipestate backfill {self.work.address} --resume"
            )
            time.sleep(ORDERS_PAUSE_S)
        if orders.batch_rows != self.ordered_rows:
            self.ordered_rows = orders.batch_rows
            self.pace = fixed_or_adapted(orders.batch_rows or self.how.batch_size)

    def batch(self, size: int) -> tuple[Progress, Range] | None:
        """Update one range and record it in the ledger."""
        ahead = next_range(self.connection, self.key, self.progress.last_key, size)
        if ahead is None:
            return None
        if ahead.first == self.progress.last_key:  # guards against an endless loop
            raise BackfillFailed(
                f"{self.work.address}: no key follows {ahead.first}, and the batches do not end: report this as a bug"
            )
        first, last = self.key.literal(ahead.first), self.key.literal(ahead.last)
        statement = with_range(self.backfill.sql, self.backfill.dialect, first, last)
        updated = self.connection.exec_driver_sql(statement, execution_options=AS_WRITTEN).rowcount
        if updated and not self.is_proven:
            self._refuse_endless(first, last, updated)
        before = self._begun()
        now = before.after(ahead.first, ahead.last, seen=ahead.rows, updated=updated)
        ledger.keep_batch(self.connection, self.work, before, now)
        return now, ahead

    def committed(self, done: tuple[Progress, Range]) -> bool:
        now, ahead = done
        self.updated += now.rows_updated - self.progress.rows_updated
        self.batches += 1
        self.progress = now
        if ahead.full:
            self.how.on_progress(now.rows_seen, max(now.rows_seen, now.rows_expected))
        return ahead.full

    def refused(self, error: DBAPIError) -> None:
        behind = f" after {self.key.column} {self.progress.last_key}" if self.progress.last_key else ""
        raise BackfillFailed(
            f"{self.work.address}: the server refused the batch{behind}: {reason(error)}; finished batches are kept "
            f"({many(self.updated, 'row')} in this run): fix those rows, then run the same again"
        ) from error

    def _find_start(self) -> str | None:
        """Resume an unfinished run, or check that rows are left; return the key to resume after."""
        latest = ledger.latest_run(self.connection, self.work)
        self.is_proven = latest is not None and latest.rows_updated > 0
        if latest is not None and latest.is_resumable:
            self.progress = latest
            return latest.last_key
        with transaction(self.connection, self.engine.begin_reading):
            any_left = forecast.any_left(self.connection, self.backfill)
            self.progress = Progress(rows_expected=forecast.rows_in(self.connection, self.key))
        if not any_left and latest is not None and latest.finished:
            self.progress = latest
        elif not any_left:
            self._end(0)
        return None

    def _end(self, left: int) -> None:
        """Record the number of rows left; a run without batches gets its row here."""
        with transaction(self.connection, self.engine.begin_end):
            self.progress = ledger.end_walk(self.connection, self.work, self._begun(), left=left)

    def _begun(self) -> Progress:
        """Return the progress; insert the ledger row if it is missing."""
        if self.progress.id is not None:
            return self.progress
        expected = self.progress.rows_expected
        return ledger.begin_run(self.connection, self.work, expected=expected, revision=self.revision)

    def _left(self) -> int:
        with transaction(self.connection, self.engine.begin_reading):
            return forecast.count_left(self.connection, self.backfill, self.key)

    def _refuse_endless(self, first: str, last: str, updated: int) -> None:
        """Refuse, before the first commit, an UPDATE that leaves its rows matching its WHERE."""
        if forecast.count_within(self.connection, self.backfill, self.key, first, last) >= updated:
            raise ConfigError(
                f"{self.backfill.block}: the {many(updated, 'row')} that it updated between {first} and {last} still "
                "match its WHERE, so the backfill would never end; nothing was changed: add a condition that "
                "excludes updated rows"
            )
        self.is_proven = True
