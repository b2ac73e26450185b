"""Statements prepared and planned on a server: their errors and the columns that they would return."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.drivers import message, sqlstate
from pipestate.database.urls import shown
from pipestate.rehearse.clone import HIDDEN_COLUMN
from pipestate.runbook.statement import statements, tokens

PARAMETERS = "SELECT cardinality(parameter_types) FROM pg_catalog.pg_prepared_statements WHERE name = 'pipestate_compat'"
COLUMNS = (
    "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute "
    "WHERE attrelid = 'pg_temp.pipestate_columns'::regclass AND attnum > 0 ORDER BY attnum"
)
# A BEFORE INSERT trigger may fill columns that the statement omits.
REQUIRED = text(
    "SELECT a.attnum, a.attname::text FROM pg_catalog.pg_attribute a "
    "WHERE a.attrelid = to_regclass(format('%I.%I', CAST(:schema AS text), CAST(:table AS text))) "
    "AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND a.attgenerated = '' "
    "AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = a.attrelid AND t.tgtype & 7 = 7 AND t.tgenabled <> 'D')"
)
NO_RIGHTS = "42501"
NOT_ONE = "it is not one statement"
Column = tuple[str, str]  # name and type
FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
EXTENSION = "pg_stat_statements"
HIDDEN = "<insufficient privilege>"
CUT_OFF = ("at end of input", "unterminated")
UTILITIES = re.compile(
    "ABORT|ALTER|ANALYZE|BEGIN|CALL|CHECKPOINT|CLOSE|CLUSTER|COMMENT|COMMIT|COPY|CREATE|DEALLOCATE|DECLARE|DISCARD|DO|DROP|"
    "END|EXECUTE|EXPLAIN|FETCH|GRANT|IMPORT|LISTEN|LOAD|LOCK|MOVE|NOTIFY|PREPARE|REASSIGN|REFRESH|REINDEX|RELEASE|RESET|"
    "REVOKE|ROLLBACK|SAVEPOINT|SECURITY|SET|SHOW|START|TRUNCATE|UNLISTEN|VACUUM"
)
QUERIES = text(
    "SELECT DISTINCT query FROM pg_stat_statements "
    "WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) ORDER BY 1"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The error of preparing or planning a statement, and the columns that it returns, if known."""

    error: str | None
    columns: tuple[Column, ...] | None = None
    plan_error: str | None = None


def read_prepared(said: Sequence[Any]) -> Prepared:
    """Read the child's report of one statement."""
    error, columns, plan_error = said
    known = tuple((name, kind) for name, kind in columns) if columns is not None else None
    return Prepared(error, known, plan_error)


def prepare(url: URL, given: Sequence[str]) -> list[Prepared]:
    """Prepare and plan each statement, and read its columns, without running it."""
    with db.reachable(url), db.engine_for(url).connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        return [_prepared(connection, statement) for statement in given]


def _prepared(connection: Connection, statement: str) -> Prepared:
    if len(statements(tokens(statement, "postgresql"))) != 1:  # a second one would be run
        return Prepared(NOT_ONE)
    try:
        _run(connection, "BEGIN")
        _run(connection, "SET LOCAL plan_cache_mode = force_generic_plan")
        _run(connection, f"PREPARE pipestate_compat AS {statement}")
        count = connection.exec_driver_sql(PARAMETERS).scalar_one()
        arguments = f"({', '.join(['NULL'] * count)})" if count else ""
        execute = f"EXECUTE pipestate_compat{arguments}"
        plan_error = _plan_error(connection, execute)
        return Prepared(None, tuple(_columns(connection, execute)) or None, plan_error)
    except DBAPIError as error:
        return Prepared(message(error).partition("\n")[0])
    finally:
        _run(connection, "ROLLBACK")
        _run(connection, "DEALLOCATE ALL")


def _plan_error(connection: Connection, execute: str) -> str | None:
    """Return the error of planning a statement, or of a NULL that it inserts into a NOT NULL column.

    Parameters are planned as unknown values. Rights are ignored: the statement may belong to another role.
    """
    _run(connection, "SAVEPOINT pipestate_plan")
    try:
        plans = connection.exec_driver_sql(
            f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) {execute}", execution_options={"no_parameters": True}
        ).scalar_one()
        return next(_missing_values(connection, plans[0].get("Plan", {})), None)
    except DBAPIError as error:
        _run(connection, "ROLLBACK TO SAVEPOINT pipestate_plan")
        return None if sqlstate(error) == NO_RIGHTS else message(error).partition("\n")[0]


def _missing_values(connection: Connection, plan: dict[str, Any]) -> Iterator[str]:
    """Find the NOT NULL columns that an INSERT leaves NULL; a plan lists the values of all columns."""
    inner = plan.get("Plans", [])
    if plan.get("Operation") == "Insert" and inner:
        values, table = inner[0].get("Output", []), plan["Relation Name"]
        for number, name in connection.execute(REQUIRED, {"schema": plan["Schema"], "table": table}):
            if number <= len(values) and values[number - 1].startswith("NULL::"):
                yield f'null value in column "{name}" of relation "{table}" violates not-null constraint'
    for each in inner:
        yield from _missing_values(connection, each)


def _columns(connection: Connection, execute: str) -> Iterator[Column]:
    """Describe the columns of a prepared SELECT: create an empty table of them."""
    try:
        _run(connection, f"CREATE TEMPORARY TABLE pipestate_columns AS {execute} WITH NO DATA")
    except DBAPIError:
        return  # it writes, or two of its columns share a name
    for name, kind in connection.exec_driver_sql(COLUMNS):
        if not re.match(HIDDEN_COLUMN, name):
            yield str(name), str(kind)


def _run(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


class Reason(StrEnum):
    """The reason why a statement cannot be prepared before any change."""

    UTILITY = "a command that cannot be prepared"
    CUT_OFF = "its end is cut off"
    HIDDEN = "its text is hidden from this role: GRANT pg_read_all_stats"
    SEVERAL = "it is not one statement"
    REFUSED = "the server does not understand it today"


def read_statements(source: str, url: URL) -> list[str]:
    """Read the statements of a file, or those of a database in pg_stat_statements."""
    given = list(_of_server(url) if source == EXTENSION else _of_file(Path(source)))
    if not given:
        raise ConfigError(f"{source} holds no statement: there is nothing to compare")
    return given


def _of_file(path: Path) -> Iterator[str]:
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: --statements takes a file of SQL, or {EXTENSION}") from error
    for statement in statements(tokens(written, "postgresql")):
        end = statement[-1]
        yield written[statement[0].start : end.start + len(end.text)]


def _of_server(url: URL) -> Iterator[str]:
    if engine_of(url).IS_FILE:
        raise ConfigError(f"{shown(url)} has no {EXTENSION}: give a file of SQL")
    with db.reader(url) as connection:
        try:
            found = connection.execute(QUERIES).scalars().all()
        except DBAPIError as error:
            raise ConfigError(
                f"{EXTENSION} cannot be read on {shown(url)}: create the extension, or give --statements a file of SQL"
            ) from error
    yield from (str(each) for each in found)


def find_reason(statement: str, error: str) -> Reason:
    """Classify the reason why a statement could not be prepared, for grouping.

    >>> [find_reason(each, "syntax error").name for each in ("VACUUM t", "SELEC 1", "<insufficient privilege>")]
    ['UTILITY', 'REFUSED', 'HIDDEN']
    """
    if statement.strip() == HIDDEN:
        return Reason.HIDDEN
    if error == NOT_ONE:
        return Reason.SEVERAL
    if UTILITIES.fullmatch(first_word(statement)):
        return Reason.UTILITY
    return Reason.CUT_OFF if any(sign in error for sign in CUT_OFF) else Reason.REFUSED


def first_word(statement: str) -> str:
    """Return the first word of a statement, after comments, in capitals.

    >>> first_word("/* why */ -- who\\n (select 1)"), first_word("")
    ('SELECT', '')
    """
    found = FIRST_WORD.match(statement)
    return found[1].upper() if found else ""
