"""What a backfill finds before its first batch, and what is left behind its last."""

from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.engine import engine_of
from pipestate.backfill.failure import is_wrong_sql, reason
from pipestate.backfill.find import Found
from pipestate.backfill.pace import LARGEST
from pipestate.backfill.source import Key
from pipestate.errors import ConfigError
from pipestate.ledger.backfills import latest_run
from pipestate.ledger.state import require_ledger
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import key_of, matching, rows_of, with_range, without_range

AS_WRITTEN = {"no_parameters": True}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do, by the planner's estimates. `batches` are at least so many, unless their size is given."""

    address: str
    table: str
    key: str
    first_key: str | None
    last_key: str | None
    rows_in_table: int
    rows_to_update: int
    batches: int
    resumes_after: str | None


def forecast(connection: Connection, found: Found, *, batch_size: int | None = None) -> Forecast:
    """Say what a run would do; nothing is run but EXPLAIN, and a look at the two ends of the key."""
    engine = engine_of(connection)
    require_ledger(connection)
    key = look_at(connection, found.backfill)
    ends = engine.extremes(connection, key)
    rows = rows_in(connection, key) if ends else 0
    latest = latest_run(connection, found.work)
    first, last = ends or (None, None)
    return Forecast(
        address=found.address,
        table=key.table,
        key=key.column,
        first_key=first,
        last_key=last,
        rows_in_table=rows,
        rows_to_update=estimate_matching(connection, found.backfill, key, ends) if ends else 0,
        batches=-(-rows // (batch_size or LARGEST)),
        resumes_after=latest.last_key if latest is not None and latest.is_resumable else None,
    )


def look_at(connection: Connection, backfill: Backfill) -> Key:
    """Find the table and its key, and have the server plan the statement: what is wrong is said before it runs."""
    engine = engine_of(connection)
    key = engine.look_at(connection, backfill)
    try:
        engine.understand(connection, with_range(backfill.sql, backfill.dialect, "NULL", "NULL"))
        if key.nullable and _any(connection, f"{_left(backfill)}\nAND {key_of(backfill)} IS NULL"):
            raise ConfigError(
                f"{backfill.block}: rows of {key.table} that it should update have no {key.column}, and no range "
                "reaches them: name a key that is NOT NULL"
            )
    except DBAPIError as error:
        if not is_wrong_sql(error):
            raise
        raise ConfigError(
            f"{backfill.block}: {reason(error)}; nothing was changed: correct the UPDATE"
        ) from error
    return key


def any_left(connection: Connection, backfill: Backfill) -> bool:
    """Say whether the statement would update any row; it stops at the first."""
    return _any(connection, _left(backfill))


def count_left(connection: Connection, backfill: Backfill) -> int:
    """Count the rows that the statement would update, whatever their key."""
    return _number(connection, f"SELECT {rows_of(backfill)} {_left(backfill)}")


def count_within(connection: Connection, backfill: Backfill, first: str, last: str) -> int:
    """Count the rows that the statement would update in one range."""
    ranged = with_range(matching(backfill), backfill.dialect, first, last)
    return _number(connection, f"SELECT {rows_of(backfill)} {ranged}")


def rows_in(connection: Connection, key: Key) -> int:
    return engine_of(connection).estimate(connection, f"SELECT 1 FROM {key.table}")


def estimate_matching(connection: Connection, backfill: Backfill, key: Key, ends: tuple[str, str]) -> int:
    """Estimate how many rows the statement would update, over the whole range."""
    first, last = (key.literal(end) for end in ends)
    ranged = with_range(matching(backfill), backfill.dialect, first, last)
    return engine_of(connection).estimate(connection, f"SELECT 1 {ranged}")


def _left(backfill: Backfill) -> str:
    return without_range(matching(backfill), backfill.dialect)


def _any(connection: Connection, rows: str) -> bool:
    return bool(_number(connection, f"SELECT EXISTS (SELECT 1 {rows}\n)"))


def _number(connection: Connection, query: str) -> int:
    return int(connection.exec_driver_sql(query, execution_options=AS_WRITTEN).scalar_one())
