"""The result of one query: its first rows and the number of all, read in limited memory.

On PostgreSQL the query runs inside `WITH … AS MATERIALIZED`, under a LIMIT. The server plans it as it stands, with
parallel workers, and stops after the rows that are shown. If there are more, a second query counts them. SQLite's
rows are counted while they are read.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import Connection, CursorResult
from sqlalchemy.exc import DataError, DBAPIError

from pipestate.core.errors import PipestateError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.drivers import message, on_sqlite, planned_anew, rows_of, sqlstate
from pipestate.database.interrupt import is_stopped
from pipestate.database.postgresql import OWN_PATH
from pipestate.plan.compile import ERRORS, CompiledCheck
from pipestate.runbook.criterion import ROWS
from pipestate.runbook.statement import explains
from pipestate.runbook.variants import ledger_names
from pipestate.verify.report import Json, Outcome, as_record, as_recorded, escaped
from pipestate.verify.session_safety import (
    MESSAGE,
    USES_IMPOSTORS,
    find_impostors,
    foreign_owner_query,
    reads_ledger,
    schemas_with_impostors,
)

MORE_TIME = "--timeout; in migrations pipestate_timeout in alembic.ini"
TOO_WIDE = "what the query returned does not fit into memory: have it return fewer or shorter values, as left(x, 200)"
CHUNK = 1000

SET = "SAVEPOINT pipestate_check"
UNDO = "ROLLBACK TO SAVEPOINT pipestate_check"
RELEASE = "RELEASE SAVEPOINT pipestate_check"

_FIRST = "WITH pipestate_rows AS MATERIALIZED (\n{sql}\n) SELECT * FROM pipestate_rows LIMIT {most}"
_COUNT = "SELECT count(*) FROM (\n{sql}\n) AS pipestate_rows"

HOW_TO_INSTALL = "run `pipestate ledger install`, or a revision that calls install_ledger()"
NO_LEDGER = f"this database has no ledger: {HOW_TO_INSTALL}"

UNDEFINED_TABLE = "42P01"
_ON_POSTGRESQL = re.compile(r"\bpipestate\.\w+")
_ON_SQLITE = re.compile(r"no such table: pipestate_(?!archive_|alembic_)\w+")

Found = CursorResult[tuple[object, ...]]


class QueryFailed(PipestateError):
    """A query without an answer: the message says why, in one sentence."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The first rows of a query's result, and the number of all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    total: int

    def records(self) -> tuple[dict[str, Json], ...]:
        return tuple(as_record(self.columns, row) for row in self.rows)


@dataclass(slots=True)
class HeldSavepoint:
    """One savepoint for many reads; `trusted` once the ledger's owner has been read and is trusted."""

    trusted: bool = False


@contextmanager
def fence(connection: Connection) -> Iterator[HeldSavepoint | None]:
    """Keep one savepoint for many reads, for a driver that takes several statements in one message.

    Each read begins by rolling back to it, in the message that brings its query. So errors and changed settings
    end before the next read, at a third of the messages.
    """
    if connection.dialect.driver != "psycopg2":
        yield None
        return
    connection.exec_driver_sql(SET)
    try:
        yield HeldSavepoint()
    finally:
        if not connection.invalidated:
            db.send(connection, UNDO, RELEASE)


@contextmanager
def guarded(connection: Connection, timeout_s: float, behind: HeldSavepoint | None = None) -> Iterator[str]:
    """Give a query a deadline and, on PostgreSQL, a savepoint: after an error the server refuses everything else.

    Yields the beginning of the query's message: empty, or behind a fence the rollback to its savepoint.
    """
    if engine_of(connection).IS_FILE:
        end = time.monotonic() + timeout_s
        on_sqlite(
            connection,
            lambda driver: driver.set_progress_handler(
                lambda: time.monotonic() > end or is_stopped(), 10_000
            ),
        )
        yield ""
        return
    limit = f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}"
    if behind is not None:
        yield f"{UNDO}; {limit}; "
        return
    db.send(connection, SET, limit)
    try:
        yield ""
    finally:
        if not connection.invalidated:
            db.send(connection, UNDO, RELEASE)


def read(
    connection: Connection,
    sql: str,
    timeout_s: float,
    *,
    most: int,
    behind: HeldSavepoint | None = None,
    count: bool = True,
    is_ours: bool = False,
) -> QueryResult:
    """Run the SQL of a block; return its first rows and the number of all.

    A query of ours, as that of a sign-off, does not look at the project's search path.
    Raises QueryFailed if it fails, takes too long, returns a value that Python cannot hold, or reads the ledger of an
    untrusted role. A lost connection raises the driver's error. With `count` false the total is that of the first rows.
    """
    with _guarded_query(connection, sql, timeout_s, behind, is_ours=is_ours) as first:
        if engine_of(connection).IS_FILE:
            return _counted_here(_execute(connection, ledger_names(sql)), most)
        if explains(sql, "postgresql"):
            return _counted_here(_execute(connection, first + sql), most)
        return _counted_there(connection, first, sql, most, count=count)


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The verdict that a compiled check returned."""

    outcome: Outcome
    message: str
    rows: int
    observed: dict[str, Json]


def read_verdict(
    connection: Connection, check: CompiledCheck, timeout_s: float, *, behind: HeldSavepoint | None = None
) -> CheckAnswer:
    """Run a compiled check; raises QueryFailed as `read` does."""
    query = check.query or check.verdict
    with _guarded_query(connection, query, timeout_s, behind, is_ours=check.is_ours) as first:
        found = _execute(connection, first + check.verdict)
        columns = tuple(found.keys())
        row = rows_of(found)(found.one())
    return answer_of(check, columns, row)


def answer_of(check: CompiledCheck, columns: Sequence[str], row: Sequence[object]) -> CheckAnswer:
    """Make the answer of the row of a compiled check: on PostgreSQL the observed row is JSON, on SQLite its columns."""
    rows = int(str(row[2]))
    observed: dict[str, Json] = {ROWS: rows} if check.counts_rows or rows != 1 else {}
    if columns[3:] != ("observed",):  # SQLite renames the second of two columns
        names = {name.lower() for name in columns[3:]}
        if several := next((name for name in check.columns if f"{name.lower()}:1" in names), None):
            raise QueryFailed(f"the query returns column {several} more than once: rename one of them")
        observed |= as_record(columns[3:], row[3:]) if rows == 1 else {}
    elif row[3] is not None:
        with suppress(ValueError, RecursionError):  # too long or too deep to be shown; the verdict stands
            observed |= as_recorded(json.loads(str(row[3]), parse_float=Decimal))
    return CheckAnswer(Outcome(str(row[0])), escaped(str(row[1])), rows, observed)


@contextmanager
def _guarded_query(
    connection: Connection, sql: str, timeout_s: float, behind: HeldSavepoint | None, *, is_ours: bool
) -> Iterator[str]:
    """Guard a query, and turn its errors into QueryFailed; yields the beginning of its message."""
    began = time.monotonic()
    with guarded(connection, timeout_s, behind) as first:
        try:
            if engine_of(connection).IS_FILE:
                yield first
                return
            is_new = reads_ledger(sql) and not (behind and behind.trusted)
            if behind and (is_new or schemas_with_impostors(connection)):
                # The rollback to the savepoint, before a query of ours.
                db.send(connection, first.removesuffix("; "))
            if not is_ours and (found := find_impostors(connection, sql)):
                raise QueryFailed(USES_IMPOSTORS.format(found=found))
            if is_new:
                if foreign := db.run_own(connection, foreign_owner_query()):
                    raise QueryFailed(MESSAGE % tuple(foreign[0]))
                if behind:
                    behind.trusted = True
            if is_ours and behind:
                first += f"SET LOCAL search_path = {OWN_PATH}; "
            with engine_of(connection).own_path(connection) if is_ours and not behind else nullcontext():
                yield first
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            raise QueryFailed(explain(error, timeout_s, time.monotonic() - began)) from error
        except MemoryError as error:
            raise QueryFailed(TOO_WIDE) from error
        except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise QueryFailed(_unreadable(why)) from error


def explain(error: DBAPIError, timeout_s: float, after_s: float | None = None) -> str:
    """Say in one sentence why a query failed; `after_s` is how long it ran."""
    text, code = message(error), sqlstate(error)
    if code == "57014" or text == "interrupted":
        if after_s is not None and after_s < timeout_s:
            return f"was cancelled by somebody after {after_s:.1f} of its {timeout_s:g} s: run it again"
        return f"took longer than {timeout_s:g} s: make the query faster, or give it more time ({MORE_TIME})"
    if code is None and isinstance(error, DataError):  # psycopg 3, of a time that Python does not have
        return _unreadable(text)
    kept = re.split(r"\n(?:LINE \d+:|CONTEXT:)", text)[0]
    kept = explain_missing_ledger(" ".join(kept.split()), code)
    return next((re.sub(said, better, kept) for said, better in ERRORS if re.search(said, kept)), kept)


def _unreadable(why: str) -> str:
    return (
        f"the query returned a value that cannot be read ({' '.join(why.split())}): "
        "have it return text there, as CAST(x AS text), or another column"
    )


def _execute(connection: Connection, sql: str) -> Found:
    """Run a query exactly as it is written."""
    return connection.exec_driver_sql(
        planned_anew(connection, sql), execution_options={"no_parameters": True}
    )


def _counted_here(found: Found, most: int) -> QueryResult:
    """Count the rows while they are read, and keep the first."""
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchmany(most)]
    total = len(rows)
    while more := len(found.fetchmany(CHUNK)):
        total += more
    found.close()
    return QueryResult(columns, tuple(rows), total)


def _counted_there(connection: Connection, first: str, sql: str, most: int, *, count: bool) -> QueryResult:
    """Read one row more than is shown: if it exists, the server counts all rows."""
    found = _execute(connection, first + _FIRST.format(sql=sql, most=most + 1))
    columns, as_tuple = tuple(found.keys()), rows_of(found)
    rows = [as_tuple(row) for row in found.fetchall()]
    total = len(rows)
    if total > most and count:
        total = max(total, int(str(_execute(connection, _COUNT.format(sql=sql)).scalar_one())))
    return QueryResult(columns, tuple(rows[:most]), total)


def explain_missing_ledger(message: str, sqlstate: str | None = None) -> str:
    """Replace a driver's message about a missing table of the ledger by the next step; leave every other message.

    >>> explain_missing_ledger('relation "pipestate.soak" does not exist', "42P01") == NO_LEDGER
    True
    >>> explain_missing_ledger("no such table: orders")
    'no such table: orders'
    """
    missing = _ON_POSTGRESQL.search(message) if sqlstate == UNDEFINED_TABLE else _ON_SQLITE.search(message)
    return NO_LEDGER if missing else message
