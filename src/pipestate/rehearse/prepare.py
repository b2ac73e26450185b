"""Statements prepared on a server: does it still understand them, and which columns would they return?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.drivers import message
from pipestate.runbook.statement import statements, tokens

PARAMETERS = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'pipestate_compat'"
COLUMNS = (
    "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = 'pg_temp.pipestate_columns'::regclass AND attnum > 0 ORDER BY attnum"
)

NOT_ONE = "it is not one statement"

Column = tuple[str, str]  # its name and its type


@dataclass(frozen=True, slots=True)
class Prepared:
    """Why a statement cannot be prepared, or the columns that it returns; None where it returns none that we know."""

    error: str | None
    columns: tuple[Column, ...] | None = None


def read_prepared(said: Sequence[Any]) -> Prepared:
    """Read what the child told of one statement."""
    error, columns = said
    return Prepared(error, tuple((name, kind) for name, kind in columns) if columns is not None else None)


def prepare(url: URL, given: Sequence[str]) -> list[Prepared]:
    """Prepare each statement, and look at its columns; nothing of it is run."""
    with db.reachable(url), db.engine_for(url).connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        return [_prepared(connection, statement) for statement in given]


def _prepared(connection: Connection, statement: str) -> Prepared:
    if len(statements(tokens(statement, "postgresql"))) != 1:  # the second one would be run
        return Prepared(NOT_ONE)
    try:
        _run(connection, "BEGIN")
        _run(connection, f"PREPARE pipestate_compat AS {statement}")
        return Prepared(None, tuple(_columns(connection)) or None)
    except DBAPIError as error:
        return Prepared(message(error).partition("\n")[0])
    finally:
        _run(connection, "ROLLBACK")
        _run(connection, "DEALLOCATE ALL")


def _columns(connection: Connection) -> Iterator[Column]:
    """Describe what a prepared SELECT returns: make a table of its columns, without running it."""
    count = connection.exec_driver_sql(PARAMETERS).scalar_one()
    arguments = f"({', '.join(['NULL'] * count)})" if count else ""
    try:
        _run(
            connection,
            f"CREATE TEMPORARY TABLE pipestate_columns AS EXECUTE pipestate_compat{arguments} WITH NO DATA",
        )
    except DBAPIError:
        return  # it writes, or two of its columns have one name
    for name, kind in connection.exec_driver_sql(COLUMNS):
        yield str(name), str(kind)


def _run(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
