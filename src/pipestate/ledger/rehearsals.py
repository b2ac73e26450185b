"""The only writer of `rehearsal`: what was felt on a clone, and exactly which files ran there."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert

from pipestate.ledger.actor import who
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import ledger_on


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One rehearsal. Where a revision failed, what was felt is unknown (None), and no check passes on it."""

    revision: str | None
    target: str | None
    files: Mapping[str, str]
    clone: str
    rows: int
    longest_stall_ms: float | None
    noise_ms: float
    bounded: bool | None
    ok: bool
    duration_ms: float


def record_rehearsal(connection: Connection, done: Rehearsed) -> None:
    """Write a rehearsal into the ledger of the database that it was for."""
    require_ledger(connection)
    table = ledger_on(connection.dialect.name).rehearsal
    connection.execute(insert(table).values(**asdict(done), actor=who()))
