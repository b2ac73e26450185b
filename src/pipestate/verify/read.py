"""Reading the result of one query: the first rows, and how many there are, in bounded memory.

How each engine does that is in the modules of their names; here is what an error means.
"""

import re
import time
from contextlib import AbstractContextManager

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError

from pipestate.drivers import message, sqlstate
from pipestate.verify.engine import engine_of
from pipestate.verify.missing import explain_missing_ledger
from pipestate.verify.rows import QueryFailed
from pipestate.verify.values import QueryResult

MORE_TIME = "--timeout; in migrations pipestate_timeout in alembic.ini"
TOO_WIDE = "what the query returned does not fit into memory: have it return fewer or shorter values, as left(x, 200)"


def read(connection: Connection, sql: str, timeout_s: float, *, most: int) -> QueryResult:
    """Run the SQL of a block; return its first rows and the number of all.

    Raises QueryFailed where it fails, takes too long, returns what Python cannot hold, or would read a ledger that
    a stranger has made. A connection that is lost is not the query's fault, and raises what the driver did.
    """
    engine, began = engine_of(connection), time.monotonic()
    with engine.guarded(connection, timeout_s) as first:
        try:
            return engine.read_rows(connection, first, sql, most)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            raise QueryFailed(explain(error, timeout_s, time.monotonic() - began)) from error
        except MemoryError as error:
            raise QueryFailed(TOO_WIDE) from error
        except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise QueryFailed(_unreadable(why)) from error


def fence(connection: Connection) -> AbstractContextManager[None]:
    """Keep one savepoint for many reads, where the engine and its driver can."""
    return engine_of(connection).fence(connection)


def guarded(connection: Connection, timeout_s: float) -> AbstractContextManager[str]:
    """Give the queries that follow a deadline of their own; yields what their message begins with."""
    return engine_of(connection).guarded(connection, timeout_s)


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
