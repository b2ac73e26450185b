"""Row counts and estimates of a backfill: before the first batch, within a batch, and after the last."""

from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.loop import ENGINES, LARGEST, is_wrong_sql, reason
from pipestate.backfill.source import Found, Key, extremes, read_row
from pipestate.core.errors import ConfigError
from pipestate.database.connections import choose
from pipestate.ledger.backfills import latest_run
from pipestate.ledger.state import require_ledger
from pipestate.runbook.model import Backfill
from pipestate.runbook.update import count_of, matching, of_target, with_range, without_range


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a run. `batches` is a minimum, unless the batch size is given.

    `counted` means that `rows_to_update` is a count; otherwise it is the planner's estimate.
    """

    address: str
    table: str
    key: str
    first_key: str | None
    last_key: str | None
    rows_in_table: int
    rows_to_update: int
    batches: int
    resumes_after: str | None
    counted: bool


def forecast(connection: Connection, found: Found, *, batch_size: int | None = None) -> Forecast:
    """Forecast a run: count for up to a second, else estimate; writes nothing."""
    require_ledger(connection)
    key = find_key(connection, found.backfill)
    ends = extremes(connection, key)
    rows = rows_in(connection, key) if ends else 0
    latest = latest_run(connection, found.work)
    first, last = ends or (None, None)
    matching_rows, counted = count_or_estimate(connection, found.backfill, key, ends) if ends else (0, True)
    return Forecast(
        address=found.address,
        table=key.table,
        key=key.column,
        first_key=first,
        last_key=last,
        rows_in_table=rows,
        rows_to_update=matching_rows,
        batches=-(-rows // (batch_size or LARGEST)),
        resumes_after=latest.last_key if latest is not None and latest.is_resumable else None,
        counted=counted,
    )


def find_key(connection: Connection, backfill: Backfill) -> Key:
    """Find the table and its key, and let the server plan the statement, so errors appear before the run."""
    engine = choose(ENGINES, connection)
    key = engine.find_key(connection, backfill)
    try:
        engine.understand(connection, with_range(backfill.sql, backfill.dialect, "NULL", "NULL"))
        if key.nullable and _any(
            connection, f"{_left(backfill)}\nAND {of_target(backfill, backfill.key)} IS NULL"
        ):
            raise ConfigError(
                f"{backfill.block}: {key.column} is NULL in rows of {key.table} that match the UPDATE, so no batch "
                "contains them: name a key that is NOT NULL"
            )
    except DBAPIError as error:
        if not is_wrong_sql(error):
            raise
        raise ConfigError(
            f"{backfill.block}: {reason(error)}; nothing was changed: correct the UPDATE"
        ) from error
    return key


def any_left(connection: Connection, backfill: Backfill) -> bool:
    """Check whether the statement would update any row; the query stops at the first match."""
    return _any(connection, _left(backfill))


def count_left(connection: Connection, backfill: Backfill, key: Key) -> int:
    """Count the rows that the statement would update, over all keys."""
    return int(read_row(connection, count_of(backfill, _left(backfill), key.row))[0])


def count_within(connection: Connection, backfill: Backfill, key: Key, first: str, last: str) -> int:
    """Count the rows that the statement would update in one range."""
    ranged = with_range(matching(backfill), backfill.dialect, first, last)
    return int(read_row(connection, count_of(backfill, ranged, key.row))[0])


def rows_in(connection: Connection, key: Key) -> int:
    return choose(ENGINES, connection).estimate(connection, f"SELECT 1 FROM {key.table}")


def count_or_estimate(
    connection: Connection, backfill: Backfill, key: Key, ends: tuple[str, str]
) -> tuple[int, bool]:
    """Count the rows that the statement would update, for at most a second; else estimate them.

    The second value is True for a count. The planner's estimate is unreliable for columns without statistics.
    """
    engine = choose(ENGINES, connection)
    counted = engine.count_quickly(connection, count_of(backfill, _left(backfill), key.row))
    if counted is not None:
        return counted, True
    first, last = (key.literal(end) for end in ends)
    ranged = with_range(matching(backfill), backfill.dialect, first, last)
    return engine.estimate(connection, f"SELECT 1 {ranged}"), False


def _left(backfill: Backfill) -> str:
    return without_range(matching(backfill), backfill.dialect)


def _any(connection: Connection, rows: str) -> bool:
    return bool(read_row(connection, f"SELECT EXISTS (SELECT 1 {rows}\n)")[0])
