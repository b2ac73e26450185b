"""The only writer of `backfill_progress`: one row per backfill run, updated in each batch's transaction.

Progress and data are committed together, so the row stays correct after a kill. The next run resumes after
`last_key`. A run is finished when every matching row of the table has been updated.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from pipestate.core.errors import Unreachable
from pipestate.ledger.record import who
from pipestate.ledger.tables import CLOCK, ledger_on


@dataclass(frozen=True, slots=True)
class Work:
    """Identity of a backfill: runbook, name, and the hash of its table, key and SQL."""

    runbook: str
    name: str
    table: str
    key: str
    sha256: str

    @property
    def address(self) -> str:
        return f"{self.runbook}/{self.name}"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run, as stored in its row. `id` is None until the row exists.

    `rows_left` is None until the walk ends.
    """

    id: int | None = None
    first_key: str | None = None
    last_key: str | None = None
    rows_seen: int = 0
    rows_expected: int = 0
    rows_updated: int = 0
    batches: int = 0
    rows_left: int | None = None
    finished: bool = False

    @property
    def is_resumable(self) -> bool:
        return not self.finished and self.rows_left is None

    def after(self, first: str, last: str, *, seen: int, updated: int) -> "Progress":
        """Return the progress after one more batch."""
        return replace(
            self,
            first_key=self.first_key if self.first_key is not None else first,
            last_key=last,
            rows_seen=self.rows_seen + seen,
            rows_updated=self.rows_updated + updated,
            batches=self.batches + 1,
        )


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders from another terminal: who paused the run, and the rows per batch."""

    paused_by: str | None = None
    batch_rows: int | None = None


def latest_run(connection: Connection, work: Work) -> Progress | None:
    """Read the newest run of exactly this work; None if missing or if the hash differs."""
    table = ledger_on(connection.dialect.name).backfill_progress
    named = (table.c.runbook == work.runbook) & (table.c.name == work.name)
    row = connection.execute(select(table).where(named).order_by(table.c.id.desc()).limit(1)).first()
    if row is None or row.sql_sha256 != work.sha256:
        return None
    kept = row._mapping
    fields = {name: kept[name] for name in Progress.__dataclass_fields__ if name in kept}
    return Progress(**fields, finished=row.finished_at is not None)


def begin_run(connection: Connection, work: Work, *, expected: int, revision: str | None) -> Progress:
    """Insert the row of a new run."""
    table = ledger_on(connection.dialect.name).backfill_progress
    values = {
        "runbook": work.runbook,
        "name": work.name,
        "table_name": work.table,
        "key_column": work.key,
        "sql_sha256": work.sha256,
        "actor": who(),
        "revision": revision,
        "rows_expected": expected,
    }
    made = connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one()
    return Progress(int(made), rows_expected=expected)


def keep_batch(connection: Connection, work: Work, before: Progress, now: Progress) -> None:
    """Update the row in the batch's transaction; refuse if another run changed it in the meantime."""
    values = {name: getattr(now, name) for name in ("first_key", "last_key", "rows_seen")}
    values |= {name: getattr(now, name) for name in ("rows_updated", "batches")}
    _write(connection, work, before, values)


def end_walk(connection: Connection, work: Work, run: Progress, *, left: int) -> Progress:
    """Record the rows left after all ranges were walked; zero finishes the run."""
    finished = {"finished_at": text(CLOCK[connection.dialect.name])} if left == 0 else {}
    _write(connection, work, run, {"rows_left": left, **finished})
    return replace(run, rows_left=left, finished=left == 0)


def read_orders(connection: Connection, run: Progress) -> Orders:
    """Read the orders that another terminal wrote for this run."""
    table = ledger_on(connection.dialect.name).backfill_progress
    columns = (table.c.paused_by, table.c.batch_rows)
    row = connection.execute(select(*columns).where(table.c.id == run.id)).first()
    return Orders() if row is None else Orders(*row)


def give_orders(connection: Connection, run: Progress, orders: Orders) -> None:
    """Order a run to pause, to resume, or to change its batch size."""
    table = ledger_on(connection.dialect.name).backfill_progress
    paused_at = text(CLOCK[connection.dialect.name]) if orders.paused_by else None
    values = {"paused_by": orders.paused_by, "paused_at": paused_at, "batch_rows": orders.batch_rows}
    connection.execute(update(table).where(table.c.id == run.id).values(**values))


def _write(connection: Connection, work: Work, before: Progress, values: dict[str, Any]) -> None:
    table = ledger_on(connection.dialect.name).backfill_progress
    unmoved = (table.c.id == before.id) & (table.c.batches == before.batches)
    clock = text(CLOCK[connection.dialect.name])
    done = connection.execute(update(table).where(unmoved).values(**values, updated_at=clock))
    if done.rowcount != 1:
        raise Unreachable(
            f"another run of {work.address} is working on this database, so this run stopped: wait for the other"
        )
