"""The only writer of `backfill_progress`: one row a run of a backfill, in the transaction of each batch.

So progress and data are committed together, and what a kill leaves behind is true: the next run goes on at
`last_key`. A row is finished when no row of the table is left to update.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from pipestate.errors import Unreachable
from pipestate.ledger.actor import who
from pipestate.ledger.tables import CLOCK, ledger_on


@dataclass(frozen=True, slots=True)
class Work:
    """What a backfill does: whose it is, and the hash of its table, key and SQL."""

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
    """How far a run is, as its row says; without an `id` it has none yet. `rows_left` is None until the walk's end."""

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
        """Say how far the run is behind one more batch."""
        return replace(
            self,
            first_key=self.first_key if self.first_key is not None else first,
            last_key=last,
            rows_seen=self.rows_seen + seen,
            rows_updated=self.rows_updated + updated,
            batches=self.batches + 1,
        )


def latest_run(connection: Connection, work: Work) -> Progress | None:
    """Read the newest run of exactly this work; None where there is none, or where the block was another one."""
    table = ledger_on(connection.dialect.name).backfill_progress
    named = (table.c.runbook == work.runbook) & (table.c.name == work.name)
    row = connection.execute(select(table).where(named).order_by(table.c.id.desc()).limit(1)).first()
    if row is None or row.sql_sha256 != work.sha256:
        return None
    kept = row._mapping
    fields = {name: kept[name] for name in Progress.__dataclass_fields__ if name in kept}
    return Progress(**fields, finished=row.finished_at is not None)


def begin_run(connection: Connection, work: Work, *, expected: int, revision: str | None) -> Progress:
    """Write the row of a new run."""
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
    """Bring the row up to date in the batch's transaction; refuse where another run has moved it meanwhile."""
    values = {name: getattr(now, name) for name in ("first_key", "last_key", "rows_seen")}
    values |= {name: getattr(now, name) for name in ("rows_updated", "batches")}
    _write(connection, work, before, values)


def end_walk(connection: Connection, work: Work, run: Progress, *, left: int) -> Progress:
    """Write how many rows are left when all ranges were walked; none means that the run is finished."""
    finished = {"finished_at": text(CLOCK[connection.dialect.name])} if left == 0 else {}
    _write(connection, work, run, {"rows_left": left, **finished})
    return replace(run, rows_left=left, finished=left == 0)


def _write(connection: Connection, work: Work, before: Progress, values: dict[str, Any]) -> None:
    table = ledger_on(connection.dialect.name).backfill_progress
    unmoved = (table.c.id == before.id) & (table.c.batches == before.batches)
    clock = text(CLOCK[connection.dialect.name])
    done = connection.execute(update(table).where(unmoved).values(**values, updated_at=clock))
    if done.rowcount != 1:
        raise Unreachable(
            f"another run of {work.address} is at work on this database: this one wrote nothing more; let that end"
        )
