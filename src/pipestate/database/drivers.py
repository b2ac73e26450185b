"""Differences between drivers: error codes and messages, some values, cached plans, access to SQLite's file.

A project migrates with its own driver. pipestate's commands connect with psycopg2 or sqlite3.
"""

import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.util import await_only

T = TypeVar("T")
# PostgreSQL's OIDs of char(n), and of two types that only asyncpg decodes differently.
CHAR, REAL, PADDED = 18, 700, 1042
KEEP_NO_PLANS = ("psycopg2", "pysqlite", "aiosqlite")
TAKES_NO_WRITES = "takes no writes: it is a standby, or a setting or this role is read-only; name the primary, or another role"
_NUMBERS = count(1)


def sqlstate(error: DBAPIError) -> str | None:
    """Return the SQLSTATE of an error: `pgcode` in psycopg2, `sqlstate` in psycopg 3 and asyncpg."""
    state = getattr(error.orig, "pgcode", None) or getattr(error.orig, "sqlstate", None)
    return state if isinstance(state, str) else None


def message(error: DBAPIError) -> str:
    """Return the driver's message. SQLAlchemy wraps asyncpg's errors, and prefixes the text with a class name."""
    said: BaseException | None = error.orig
    if said is not None and type(said).__module__.startswith("sqlalchemy.") and said.__cause__ is not None:
        said = said.__cause__
    return str(said).strip()


def refuses_writes(error: DBAPIError) -> bool:
    """Tell whether the server refuses all writes; a standby reports this in several forms."""
    return sqlstate(error) == "25006" or "during recovery" in message(error)


def cause_of(error: PendingRollbackError) -> DBAPIError | None:
    """Find the error that ended the connection, behind the error of a later cleanup."""
    before: BaseException | None = error
    while before is not None and not isinstance(before, DBAPIError):
        before = before.__cause__ or before.__context__
    return before


def run_as_written(connection: Connection, sql: str) -> "CursorResult[*tuple[Any, ...]]":
    """Run SQL without parameters: a `%` or a colon in it is only a character."""
    return connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


def planned_anew(connection: Connection, sql: str) -> str:
    """Make the text of a query unique if the driver caches plans by text: psycopg 3 and asyncpg.

    A revision changes tables, and the cached plan of a `SELECT *` would then fail.
    """
    return sql if connection.dialect.driver in KEEP_NO_PLANS else f"{sql}\n/* {next(_NUMBERS)} */"


def on_sqlite(connection: Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Call `work` with the sqlite3 connection; aiosqlite keeps it on a separate thread."""
    driver: Any = connection.connection.driver_connection
    if not connection.dialect.is_async:
        return work(driver)
    done: T = await_only(driver._execute(work, driver._conn))
    return done


@contextmanager
def warnings_of(connection: Connection) -> Iterator[Callable[[], list[str]]]:
    """Collect the server's warnings; the yielded function returns them, also while a statement runs.

    psycopg2 receives warnings during a statement only if the process has a wait callback (`interrupt.listen`).
    """
    driver: Any = connection.connection.driver_connection
    if connection.dialect.driver == "psycopg2":
        before = len(driver.notices)
        yield lambda: [line.partition(":")[2].strip() for line in driver.notices[before:]]
        return
    heard: list[str] = []
    listeners = "log_listener" if connection.dialect.driver == "asyncpg" else "notice_handler"

    def hear(*received: Any) -> None:
        heard.append(getattr(received[-1], "message", None) or received[-1].message_primary)

    getattr(driver, f"add_{listeners}")(hear)
    try:
        yield lambda: heard
    finally:
        getattr(driver, f"remove_{listeners}")(hear)


def rows_of(found: CursorResult[Any]) -> Callable[[Iterable[object]], tuple[object, ...]]:
    """Return a function from row to tuple, with the same values for every driver; call it before fetching.

    asyncpg returns `"char"` as bytes, and `real` with the digits of a double. A check that compares with 'r' or 0.1
    would then pass in `pipestate gate` and fail in the migration. Trailing blanks of a char(n) are removed,
    because SQL, and therefore a script, ignores them in comparisons.
    """
    if found.cursor is None:
        return tuple
    kinds = [column[1] for column in found.cursor.description or ()]
    if PADDED not in kinds and found.dialect.driver != "asyncpg":
        return tuple
    return lambda row: tuple(_as_others(value, kind) for value, kind in zip(row, kinds, strict=True))


def _as_others(value: object, kind: object) -> object:
    if kind == PADDED and isinstance(value, str):
        return value.rstrip(" ")
    if kind == CHAR and isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return _shortest(value) if kind == REAL and isinstance(value, float) else value


def _shortest(real: float) -> float:
    """Find the number with the fewest digits that equals the same `real`.

    >>> _shortest(0.10000000149011612), _shortest(-3.5)
    (0.1, -3.5)
    """
    tried = (float(f"{real:.{digits}g}") for digits in range(1, 10))
    return next(short for short in tried if struct.pack("f", short) == struct.pack("f", real))
