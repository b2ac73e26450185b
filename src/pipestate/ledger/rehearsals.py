"""The only writer of `rehearsal`: what was felt or understood on a clone, and exactly which files ran there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, null

from pipestate.ledger.actor import who
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import ledger_on

REHEARSE, COMPAT = "rehearse", "compat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One rehearsal. Where a revision failed, what was felt is unknown (None), and no check passes on it.

    `tables` has the clone's rows of each table that was locked, `scale` the largest factor of the estimates.
    """

    revision: str | None
    target: str | None
    files: Mapping[str, str]
    clone: str
    ok: bool
    duration_ms: float
    kind: str = REHEARSE
    rows: int = 0
    longest_stall_ms: float | None = None
    noise_ms: float | None = None
    bounded: bool | None = None
    tables: Mapping[str, int] | None = None
    scale: float | None = None
    statements: int | None = None
    broken: int | None = None
    changed: int | None = None
    unprepared: int | None = None


def record_rehearsal(connection: Connection, done: Rehearsed) -> None:
    """Write a rehearsal into the ledger of the database that it was for."""
    require_ledger(connection)
    table = ledger_on(connection.dialect.name).rehearsal
    values = {name: null() if value is None else value for name, value in asdict(done).items()}
    connection.execute(insert(table).values(**values, actor=who()))
