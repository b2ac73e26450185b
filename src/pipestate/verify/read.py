"""Reading the result of one query: the first rows, and how many there are, in bounded memory.

The query goes to PostgreSQL inside `WITH … AS MATERIALIZED`, under a LIMIT: the server plans it as if it
stood alone (with parallel workers, which a cursor would not get), stops after the rows that are shown,
and sends no others. Only where there are more is it asked a second time, for their number alone.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, CursorResult
from sqlalchemy.exc import DataError, DBAPIError

from pipestate import db
from pipestate.drivers import message, planned_anew, rows_of, sqlstate
from pipestate.errors import PipestateError
from pipestate.runbook.engines import ledger_names
from pipestate.runbook.plainread import explains
from pipestate.verify.missing import explain_missing_ledger
from pipestate.verify.strangers import MESSAGE, reads_ledger, strangers
from pipestate.verify.values import Result

AS_WRITTEN = {"no_parameters": True}
CHUNK = 1000
MORE_TIME = "--timeout; in migrations pipestate_timeout in alembic.ini"

FENCED = "pipestate_fenced"  # in the `info` of a connection whose savepoint stays for many reads
TRUSTED = "pipestate_trusted"  # there, behind a fence: the ledger was found to be nobody else's
SET = "SAVEPOINT pipestate_check"
UNDO = "ROLLBACK TO SAVEPOINT pipestate_check"
RELEASE = "RELEASE SAVEPOINT pipestate_check"

TOO_WIDE = "what the query returned does not fit into memory: have it return fewer or shorter values, as left(x, 200)"
_FIRST = "WITH pipestate_rows AS MATERIALIZED (\n{sql}\n) SELECT * FROM pipestate_rows LIMIT {most}"
_COUNT = "SELECT count(*) FROM (\n{sql}\n) AS pipestate_rows"


class QueryFailed(PipestateError):
    """A query that gave no answer: the message says why, in one sentence."""

    exit_code = 3


def read(connection: Connection, sql: str, timeout_s: float, *, most: int) -> Result:
    """Run the SQL of a block; return its first rows and the number of all.

    Raises QueryFailed where it fails, takes too long, returns what Python cannot hold, or would read a ledger that
    a stranger has made. A connection that is lost is not the query's fault, and raises what the driver did.
    """
    began = time.monotonic()
    with guarded(connection, timeout_s) as first:
        try:
            if connection.dialect.name == "sqlite":
                return _counted_here(_execute(connection, ledger_names(sql)), most)
            if reads_ledger(sql):
                _refuse_strangers(connection, first)
            if explains(sql, connection.dialect.name):
                return _counted_here(_execute(connection, first + sql), most)
            return _counted_there(connection, first, sql, most)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            raise QueryFailed(explain(error, timeout_s, time.monotonic() - began)) from error
        except MemoryError as error:
            raise QueryFailed(TOO_WIDE) from error
        except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise QueryFailed(_unreadable(why)) from error


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
    found = _execute(connection, first + strangers()).first()
    if found is not None:
        raise QueryFailed(MESSAGE % tuple(found))
    if FENCED in connection.info:
        connection.info[TRUSTED] = True


def _execute(connection: Connection, sql: str) -> CursorResult[tuple[object, ...]]:
    return connection.exec_driver_sql(planned_anew(connection, sql), execution_options=AS_WRITTEN)


def _counted_there(connection: Connection, first: str, sql: str, most: int) -> Result:
    """PostgreSQL: one row more than is shown tells whether there are more."""
    found = _execute(connection, first + _FIRST.format(sql=sql, most=most + 1))
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchall()]
    total = len(rows)
    if total > most:
        total = max(total, int(str(_execute(connection, _COUNT.format(sql=sql)).scalar_one())))
    return Result(columns, tuple(rows[:most]), total)


def _counted_here(found: CursorResult[tuple[object, ...]], most: int) -> Result:
    """SQLite, and what no other statement can take rows from: count while reading, and keep the first."""
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchmany(most)]
    total = len(rows)
    while more := len(found.fetchmany(CHUNK)):
        total += more
    found.close()
    return Result(columns, tuple(rows), total)


@contextmanager
def guarded(connection: Connection, timeout_s: float) -> Iterator[str]:
    """A savepoint and a deadline of its own: after an error PostgreSQL would refuse everything else.

    Yields what the query's message begins with: nothing, or behind a fence the way back to its savepoint.
    """
    if connection.dialect.name == "sqlite":
        db.set_deadline(connection, timeout_s)
        yield ""
        return
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


def explain(error: DBAPIError, timeout_s: float, after_s: float | None = None) -> str:
    """Say in one sentence why a query gave no answer; `after_s` is how long it ran."""
    text, code = message(error), sqlstate(error)
    if code == "57014" or text == "interrupted":
        if after_s is not None and after_s < timeout_s:
            return f"was cancelled by somebody after {after_s:.1f} of its {timeout_s:g} s: ask again"
        return f"took longer than {timeout_s:g} s: make the query faster, or give it more time ({MORE_TIME})"
    if code is None and isinstance(error, DataError):  # psycopg 3, of a time that Python does not have
        return _unreadable(message(error))
    kept = re.split(r"\n(?:LINE \d+:|CONTEXT:)", text)[0]
    return explain_missing_ledger(" ".join(kept.split()), code)


def _unreadable(why: str) -> str:
    return (
        f"the query returned a value that cannot be read ({' '.join(why.split())}): "
        "have it return text there, as CAST(x AS text), or another column"
    )
