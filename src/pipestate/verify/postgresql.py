"""Reading a query's result on PostgreSQL.

The query goes to the server inside `WITH … AS MATERIALIZED`, under a LIMIT: the server plans it as if it stood alone
(with parallel workers, which a cursor would not get), stops after the rows that are shown, and sends no others. Only
where there are more is it asked a second time, for their number alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from pipestate import db
from pipestate.drivers import rows_of
from pipestate.runbook.plainread import explains
from pipestate.verify.rows import QueryFailed, count_here, execute
from pipestate.verify.strangers import MESSAGE, reads_ledger, strangers
from pipestate.verify.values import QueryResult

FENCED = "pipestate_fenced"  # in the `info` of a connection whose savepoint stays for many reads
TRUSTED = "pipestate_trusted"  # there, behind a fence: the ledger was found to be nobody else's
SET = "SAVEPOINT pipestate_check"
UNDO = "ROLLBACK TO SAVEPOINT pipestate_check"
RELEASE = "RELEASE SAVEPOINT pipestate_check"

_FIRST = "WITH pipestate_rows AS MATERIALIZED (\n{sql}\n) SELECT * FROM pipestate_rows LIMIT {most}"
_COUNT = "SELECT count(*) FROM (\n{sql}\n) AS pipestate_rows"


@contextmanager
def guarded(connection: Connection, timeout_s: float) -> Iterator[str]:
    """Give a query a savepoint and a deadline of its own: after an error the server would refuse everything else.

    Yields what the query's message begins with: nothing, or behind a fence the way back to its savepoint.
    """
    limit = f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}"
    if FENCED in connection.info:
        yield f"{UNDO}; {limit}; "
        return
    db.send(connection, SET, limit)
    try:
        yield ""
    finally:
        if not connection.invalidated:
            db.send(connection, UNDO, RELEASE)


def read_rows(connection: Connection, first: str, sql: str, most: int) -> QueryResult:
    """Read the first rows and count all; refuse a ledger that a stranger has made."""
    if reads_ledger(sql):
        _refuse_strangers(connection, first)
    if explains(sql, "postgresql"):
        return count_here(execute(connection, first + sql), most)
    return _counted_there(connection, first, sql, most)


@contextmanager
def fence(connection: Connection) -> Iterator[None]:
    """Keep one savepoint for many reads: each begins by rolling back to it, in the message that brings its query.

    What a read has left behind, an error or a setting that a function changed, is gone before the next one, as
    with a savepoint of its own, at a third of the messages. For drivers that take several statements at once.
    """
    if connection.dialect.driver != "psycopg2":
        yield
        return
    connection.exec_driver_sql(SET)
    connection.info[FENCED] = True
    try:
        yield
    finally:
        if not connection.invalidated:
            del connection.info[FENCED]
            connection.info.pop(TRUSTED, None)
            db.send(connection, UNDO, RELEASE)


def _refuse_strangers(connection: Connection, first: str) -> None:
    """Raise QueryFailed where something of the ledger belongs to a stranger; behind a fence it is asked once."""
    if connection.info.get(TRUSTED):
        return
    found = execute(connection, first + strangers()).first()
    if found is not None:
        raise QueryFailed(MESSAGE % tuple(found))
    if FENCED in connection.info:
        connection.info[TRUSTED] = True


def _counted_there(connection: Connection, first: str, sql: str, most: int) -> QueryResult:
    """Read one row more than is shown: it tells whether there are more."""
    found = execute(connection, first + _FIRST.format(sql=sql, most=most + 1))
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchall()]
    total = len(rows)
    if total > most:
        total = max(total, int(str(execute(connection, _COUNT.format(sql=sql)).scalar_one())))
    return QueryResult(columns, tuple(rows[:most]), total)
