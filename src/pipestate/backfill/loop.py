"""Run a backfill.

1. Check the ledger, the table, an index on the key, and the UPDATE. This step writes nothing.
2. Take the lock: one run per backfill at a time.
3. Resume the last run, or start a new one if rows are left to update.
4. Walk along the key, one transaction per batch: find the range, update it, record the progress, commit.
   The first batch that updates rows also proves that they stop matching. Each batch first obeys the orders
   of another terminal, and waits for an anti-wraparound vacuum.
5. Count the remaining rows. Rows that writers added behind the walk get a second walk.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import forecast
from pipestate.backfill.forecast import fixed_or_adapted
from pipestate.backfill.session import (
    ENGINES,
    PAUSE_S,
    BackfillEngine,
    BackfillFailed,
    Hold,
    is_locked,
    reason,
    transaction,
    turn,
)
from pipestate.backfill.source import AS_WRITTEN, Found, Key, Range, next_range
from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress as Tell
from pipestate.core.progress import no_progress
from pipestate.core.text import many
from pipestate.database.connections import choose
from pipestate.database.interrupt import telling
from pipestate.ledger import backfills as ledger
from pipestate.ledger.backfills import Progress, Work
from pipestate.ledger.state import require_ledger
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import with_range


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
    with turn(connection, engine, found.address):
        one = Run(connection, engine, found.backfill, found.work, key, how, revision)
        with telling(one.told):
            return one.to_its_end()


class Run:
    """One run: its position and its steps."""

    def __init__(
        self,
        connection: Connection,
        engine: BackfillEngine,
        backfill: Backfill,
        work: Work,
        key: Key,
        how: How,
        revision: str | None,
    ) -> None:
        self.connection, self.engine, self.revision = connection, engine, revision
        self.backfill, self.work, self.key, self.how = backfill, work, key, how
        self.hold = Hold(connection, engine, key, how.max_lag_s, how.on_wait)
        self.pace = fixed_or_adapted(how.batch_size)
        self.progress = Progress()
        self.ordered_rows: int | None = None
        self.is_proven = False
        self.updated = self.batches = 0

    def to_its_end(self) -> BackfillResult:
        """Walk from the last position and count the remaining rows; repeat once if rows are left."""
        began = time.monotonic()
        resumed = self._find_start()
        if self.progress.finished:
            return self._result(began, None)
        self._walk()
        left = self._left()
        if 0 < left < self.progress.rows_updated:
            self.progress = replace(self.progress, last_key=None)
            self._walk()
            left = self._left()
        self._end(left)
        return self._result(began, resumed)

    def told(self) -> str:
        """Summarize the work done, for the message after an interrupt."""
        done = f"{many(self.updated, 'row')} of {self.key.table} updated in {many(self.batches, 'batch', 'batches')}"
        at = f", up to {self.key.column} {self.progress.last_key}" if self.progress.last_key else ""
        return f"{done}{at}; the same command goes on there"

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

    def _walk(self) -> None:
        while self._is_free() and self._batch():
            seen = self.progress.rows_seen
            self.how.on_progress(seen, max(seen, self.progress.rows_expected))
            self.hold.while_replicas_are_behind()

    def _is_free(self) -> bool:
        """Wait while the run is paused or an anti-wraparound vacuum runs; apply the ordered batch size."""
        self.hold.while_wraparound_is_prevented()
        if self.progress.id is not None:
            read = partial(ledger.read_orders, self.connection, self.progress)
            orders = self.hold.while_paused(read, self.work.address)
            if orders.batch_rows != self.ordered_rows:
                self.ordered_rows = orders.batch_rows
                self.pace = fixed_or_adapted(orders.batch_rows or self.how.batch_size)
        return True

    def _batch(self) -> bool:
        """Run one batch, and wait for locked rows; return whether another batch may follow."""
        while True:
            began = time.monotonic()
            try:
                with transaction(self.connection, self.engine.begin):
                    ahead = next_range(self.connection, self.key, self.progress.last_key, self.pace.size)
                    if ahead is None:
                        return False
                    now, waited = self._update(ahead)
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
                if not is_locked(error):
                    raise self._failed(error) from error
                self.hold.for_locks(error)
                self.pace = self.pace.smaller()
                continue
            break
        self.hold.forget_locks()
        self.updated += now.rows_updated - self.progress.rows_updated
        self.batches += 1
        self.progress = now
        self.pace = self.pace.after(time.monotonic() - began, waited_for=waited, full=ahead.full)
        if waited:
            time.sleep(PAUSE_S)
        return ahead.full

    def _update(self, ahead: Range) -> tuple[Progress, bool]:
        """Update one range and record it in the ledger; return whether another session waits for it."""
        if ahead.first == self.progress.last_key:  # guards against an endless loop
            raise BackfillFailed(
                f"{self.work.address}: the keys do not go on behind {ahead.first}: report this"
            )
        first, last = self.key.literal(ahead.first), self.key.literal(ahead.last)
        statement = with_range(self.backfill.sql, self.backfill.dialect, first, last)
        updated = self.connection.exec_driver_sql(statement, execution_options=AS_WRITTEN).rowcount
        if updated and not self.is_proven:
            self._refuse_endless(first, last, updated)
        before = self._begun()
        now = before.after(ahead.first, ahead.last, seen=ahead.rows, updated=updated)
        ledger.keep_batch(self.connection, self.work, before, now)
        return now, self.engine.waited_for(self.connection)

    def _refuse_endless(self, first: str, last: str, updated: int) -> None:
        """Refuse, before the first commit, an UPDATE that leaves its rows matching its WHERE."""
        if forecast.count_within(self.connection, self.backfill, self.key, first, last) >= updated:
            raise ConfigError(
                f"{self.backfill.block}: the {many(updated, 'row')} that it updated between {first} and {last} still "
                "match its WHERE, so it would never end; nothing was changed: let the condition tell what is done"
            )
        self.is_proven = True

    def _failed(self, error: DBAPIError) -> BackfillFailed:
        behind = f" behind {self.key.column} {self.progress.last_key}" if self.progress.last_key else ""
        return BackfillFailed(
            f"{self.work.address}: the batch{behind} was refused: {reason(error)}; what is done stays done "
            f"({many(self.updated, 'row')} in this run): fix those rows, then run the same again"
        )

    def _result(self, began: float, resumed: str | None) -> BackfillResult:
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
