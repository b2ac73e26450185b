"""The rows of one query: run as it is written, counted while they are read."""

from sqlalchemy import Connection, CursorResult

from pipestate.drivers import planned_anew, rows_of
from pipestate.errors import PipestateError
from pipestate.verify.values import QueryResult

AS_WRITTEN = {"no_parameters": True}
CHUNK = 1000

Found = CursorResult[tuple[object, ...]]


class QueryFailed(PipestateError):
    """A query that gave no answer: the message says why, in one sentence."""

    exit_code = 3


def execute(connection: Connection, sql: str) -> Found:
    """Run a query as it is written."""
    return connection.exec_driver_sql(planned_anew(connection, sql), execution_options=AS_WRITTEN)


def count_here(found: Found, most: int) -> QueryResult:
    """Count the rows while they are read, and keep the first: where no other statement can take rows from it."""
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchmany(most)]
    total = len(rows)
    while more := len(found.fetchmany(CHUNK)):
        total += more
    found.close()
    return QueryResult(columns, tuple(rows), total)
