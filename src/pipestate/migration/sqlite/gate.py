"""A gate on SQLite: a transaction that holds its DDL, one writer, and checks that Python evaluates."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote

from alembic import op
from sqlalchemy import Connection, event, inspect

from pipestate.database.connections import engine_of
from pipestate.database.drivers import on_sqlite
from pipestate.ledger.record import record_report
from pipestate.ledger.state import has_ledger
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError, translate_errors
from pipestate.migration.gate import evaluate_in_python
from pipestate.migration.losses import Loss, RunMemory
from pipestate.migration.request import NOT_ENFORCED, OTHER_CASE, GateRequest, Tables
from pipestate.migration.sqlite import catalog
from pipestate.migration.sqlite.losses import compare, follow, read_catalogue
from pipestate.verify.report import Gate, Report

ABSENT = (
    "revision {revision} locks {table}, which does not exist: correct the name in that revision, "
    "or write may_be_gone=True where that is right"
)

NOT_LOCKED = (
    "revision {revision} destroys something of {tables}, which its gate has not locked, so its rows were not "
    "checked: name it in gate(..., lock=[...])"
)


def require_gate_transaction(connection: Connection, revision: str) -> None:
    """Begin a transaction that holds DDL: the driver by itself begins one only before a write of rows."""
    del revision
    if not on_sqlite(connection, lambda driver: driver.in_transaction):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def write_gate(request: GateRequest, tables: Tables) -> None:
    """Refuse a script, which could not read the rows."""
    del request, tables
    raise MigrationError(
        "a gate reads the rows before the drop, which a script for SQLite cannot: upgrade without --sql"
    )


def evaluate_gate(request: GateRequest, tables: Tables) -> Report | None:
    """Evaluate the phase; return None if the tables are empty."""
    connection = op.get_bind()
    if not tables.may_be_gone:
        refuse_absent(connection, tables.names, request.revision)
    return evaluate_in_python(request, request.checks) if _has_rows(connection, tables) else None


def record_gate(request: GateRequest, report: Report | None, reason: str | None) -> None:
    """Write the first pass into the ledger, if there is one."""
    if report is not None:
        _record(request, report, reason)


def evaluate_gate_again(request: GateRequest, tables: Tables, before: Report | None) -> Report | None:
    """Repeat the required checks."""
    again = request.checks if before is None else request.again
    return evaluate_in_python(request, again) if again and _has_rows(op.get_bind(), tables) else None


def finish_gate(request: GateRequest, report: Report | None, reason: str | None, *, whole: bool) -> None:
    """Write a second pass that was forced, or that is the only one, into the ledger."""
    if report is not None and (whole or reason is not None):
        _record(request, report, reason)


def watch_others(connection: Connection, lock: Sequence[str], revision: str) -> Callable[[], None]:
    """Read the tables, and follow the statements; return the function that compares."""
    before, memory = read_catalogue(connection), RunMemory()
    known = {name.rpartition(".")[2].lower() for name in lock}

    def is_known(loss: Loss) -> bool:
        """Say whether the gate names the table, or pipestate made it; a column's name may hold points."""
        name = loss.name.lower()
        return name.startswith(("pipestate_", *(f"{table}." for table in known))) or name in known

    def hear(_: Any, __: Any, statement: str, *___: Any) -> None:
        follow(connection, statement, before, memory)

    def require() -> None:
        _, losses = compare(connection, before, memory, ())
        lost = sorted({loss.table for loss in losses if not is_known(loss)})
        if lost:
            raise MigrationError(NOT_LOCKED.format(revision=revision, tables=", ".join(lost)))

    event.listen(connection, "before_cursor_execute", hear)
    return require


def _has_rows(connection: Connection, tables: Tables) -> bool:
    """Say whether the tables hold rows, or held some before this transaction."""
    return hold_rows(connection, tables.names) or had_rows_before(connection, tables.names)


def _record(request: GateRequest, report: Report, reason: str | None) -> None:
    connection = op.get_bind()
    ((_, phase),) = report.phases()
    with translate_errors(connection.engine.url):
        if has_ledger(connection):
            event = "gate" if phase.gate is Gate.OPEN or reason == NOT_ENFORCED else "force"
            record_report(connection, report, event=event, revision=request.revision, reason=reason)


def refuse_absent(connection: Connection, tables: Sequence[str], revision: str) -> None:
    """Refuse a misspelt name: it would count as a table without rows, and open the gate."""
    there = _existing(connection, tables)
    for table in tables:
        if table not in there:
            raise MigrationError(ABSENT.format(revision=revision, table=table))


def hold_rows(connection: Connection, tables: Sequence[str]) -> bool:
    """Say whether one of the tables has a row; use a read-only session, or a policy would hide rows."""
    there = _existing(connection, tables)
    with translate_errors(connection.engine.url), engine_of(connection).read_only_session(connection):
        return any(
            connection.exec_driver_sql(
                f"SELECT EXISTS (SELECT 1 FROM {sql.always_quoted(table)})",
                execution_options={"no_parameters": True},
            ).scalar()
            for table in there
        )


def had_rows_before(connection: Connection, tables: Sequence[str]) -> bool:
    """Say whether one of the tables had a row when this transaction of SQLite began: its file still shows
    that state.

    Unreadable tables count as filled. A database in memory has no file, and only its current state.
    """
    files = {name: file for _, name, file in connection.exec_driver_sql("PRAGMA database_list")}
    if not files.get("main"):
        return False
    journal = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())
    path = quote(str(files["main"]))
    try:
        return _holds_rows(f"file:{path}?mode=ro", tables)
    except sqlite3.Error:
        if journal == "wal":
            return True
    try:  # locked by ourselves: without a write-ahead log the file lacks our changes
        return _holds_rows(f"file:{path}?mode=ro&immutable=1", tables)
    except sqlite3.Error:
        return True


def _holds_rows(uri: str, tables: Sequence[str]) -> bool:
    with closing(sqlite3.connect(uri, uri=True, timeout=0)) as driver:
        known = {name for (name,) in driver.execute("SELECT lower(name) FROM sqlite_master")}
        there = [table for table in tables if table.rpartition(".")[2].lower() in known]
        return any(
            driver.execute(
                f"SELECT EXISTS (SELECT 1 FROM {sql.quoted(table.rpartition('.')[2])})"
            ).fetchone()[0]
            for table in there
        )


def _existing(connection: Connection, tables: Sequence[str]) -> list[str]:
    """List the existing tables, `schema.table` included."""
    known = inspect(connection)
    parts = [(table, *table.rpartition(".")) for table in tables]
    return [table for table, schema, _, name in parts if known.has_table(name, schema=schema or None)]


def refuse_other_case(tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    """Refuse each name that exists only in another spelling: `may_be_gone` would treat it as dropped."""
    for table in (*tables, *columns):
        _compare(table, table, catalog.inspector().get_table_names())
    for table, names in columns.items():
        known = catalog.column_names(table) if catalog.has_table(table) else []
        for name in names:
            _compare(name, f"{table}.{name}", known)


def _compare(name: str, named: str, known: Sequence[str]) -> None:
    other = next((each for each in known if each.lower() == name.lower()), None)
    if other is not None and name not in known:
        raise MigrationError(OTHER_CASE.format(named=named, other=other))
