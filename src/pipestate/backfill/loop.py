"""Run a backfill.

1. Look: the ledger, the table, an index on the key, an UPDATE that the server understands. Nothing is written.
2. Take the lock: one run of a backfill at a time.
3. Go on where the last run stopped; else begin anew, unless no row is left to update.
4. Walk along the key, a transaction a batch: find the range, update it, keep in the ledger how far it is, commit.
   The first batch that updates rows also proves that they do not match any more.
5. Look once more: what writers have put behind the walk is walked once more; the run is finished when none is left.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import look
from pipestate.backfill.engine import BackfillEngine, engine_of
from pipestate.backfill.failure import BackfillFailed, is_locked, reason
from pipestate.backfill.find import Found
from pipestate.backfill.hold import Hold
from pipestate.backfill.pace import fixed_or_adapted
from pipestate.backfill.session import PAUSE_S, transaction, turn
from pipestate.backfill.source import Key, Range
from pipestate.errors import ConfigError
from pipestate.interrupt import telling
from pipestate.ledger import backfills as ledger
from pipestate.ledger.backfills import Progress, Work
from pipestate.ledger.state import require_ledger
from pipestate.plural import many
from pipestate.progress import Progress as Tell
from pipestate.progress import untold
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import with_range

AS_WRITTEN = {"no_parameters": True}


@dataclass(frozen=True, slots=True)
class How:
    """How a run goes: a fixed size of batches, how far replicas may be behind, and whom it tells what."""

    batch_size: int | None = None
    max_lag_s: float | None = None
    on_progress: Tell = untold
    on_wait: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """What a run did. `resumed_after` is the key at which an earlier one stopped."""

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
    """Run a backfill on a connection that commits every statement by itself; batches begin by hand."""
    engine = engine_of(connection)
    require_ledger(connection)
    with transaction(connection, engine.begin_look):
        key = look.look_at(connection, found.backfill)
    with turn(connection, engine, found.address):
        one = Run(connection, engine, found.backfill, found.work, key, how, revision)
        with telling(one.told):
            return one.to_its_end()


class Run:
    """One run: where it is, and the steps that it takes."""

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
        self.is_proven = False
        self.updated = self.batches = 0

    def to_its_end(self) -> BackfillResult:
        """Walk from where the last run stopped, look, walk once more where that helps, and look again."""
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
        """Say what was done, for whoever interrupts."""
        done = f"{many(self.updated, 'row')} of {self.key.table} updated in {many(self.batches, 'batch', 'batches')}"
        at = f", up to {self.key.column} {self.progress.last_key}" if self.progress.last_key else ""
        return f"{done}{at}; the same command goes on there"

    def _find_start(self) -> str | None:
        """Take up an unfinished run, or see that there is something to do; return the key behind which it goes on."""
        latest = ledger.latest_run(self.connection, self.work)
        self.is_proven = latest is not None and latest.rows_updated > 0
        if latest is not None and latest.is_resumable:
            self.progress = latest
            return latest.last_key
        with transaction(self.connection, self.engine.begin_look):
            any_left = look.any_left(self.connection, self.backfill)
            self.progress = Progress(rows_expected=look.rows_in(self.connection, self.key))
        if not any_left and latest is not None and latest.finished:
            self.progress = latest
        elif not any_left:
            self._end(0)
        return None

    def _end(self, left: int) -> None:
        """Write down how many rows are left; where there was no batch at all, with a row of its own."""
        with transaction(self.connection, self.engine.begin_end):
            self.progress = ledger.end_walk(self.connection, self.work, self._begun(), left=left)

    def _begun(self) -> Progress:
        """Return how far the run is; before its first batch is committed, the ledger has no row of it."""
        if self.progress.id is not None:
            return self.progress
        expected = self.progress.rows_expected
        return ledger.begin_run(self.connection, self.work, expected=expected, revision=self.revision)

    def _left(self) -> int:
        with transaction(self.connection, self.engine.begin_look):
            return look.count_left(self.connection, self.backfill)

    def _walk(self) -> None:
        while self._batch():
            seen = self.progress.rows_seen
            self.how.on_progress(seen, max(seen, self.progress.rows_expected))
            self.hold.while_replicas_are_behind()

    def _batch(self) -> bool:
        """Do one batch, with patience where rows are locked; return whether there may be another."""
        while True:
            began = time.monotonic()
            try:
                with transaction(self.connection, self.engine.begin):
                    ahead = self.engine.next_range(
                        self.connection, self.key, self.progress.last_key, self.pace.size
                    )
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
        """Update one range and keep it in the ledger; say whether somebody waits for it."""
        if ahead.first == self.progress.last_key:  # nothing may go round in circles
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
        """Refuse, before anything is committed, an UPDATE whose rows match again as soon as they are updated."""
        if look.count_within(self.connection, self.backfill, first, last) >= updated:
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
