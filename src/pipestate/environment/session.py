"""The migration's session: its settings and the lock that keeps others out, given back at the end."""

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event

from pipestate.ddl import sql
from pipestate.ddl.postgresql import locks
from pipestate.ddl.sqlite.locks import hold_file
from pipestate.drivers import on_sqlite

SESSION = {
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": locks.SESSION_LOCK_TIMEOUT,
    "default_transaction_read_only": "off",
    # Rows that a policy hides would count as absent: rather an error than an empty copy.
    "row_security": "off",
    # One core is enough for a migration: the others belong to those who write meanwhile.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
}


@contextmanager
def postgresql_session(connection: Connection, *, locked: bool) -> Iterator[None]:
    """Set up the session and, where `locked`, hold the migration lock; undo both on a lent connection."""
    level = connection.get_isolation_level()
    connection.rollback()
    connection.execution_options(isolation_level="AUTOCOMMIT")
    wanted = dict(SESSION)
    if connection.exec_driver_sql("SHOW server_version_num").scalar_one() >= "140000":
        # A killed client's backend would otherwise sleep on in `lock_tables`, holding the lock.
        wanted["client_connection_check_interval"] = "1s"
    before = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in wanted}
    _set(connection, wanted)
    try:
        with locks.one_migration_at_a_time(connection) if locked else nullcontext():
            connection.rollback()
            connection.execution_options(isolation_level=level)
            yield
    finally:
        if not connection.closed and not connection.invalidated:
            connection.rollback()
            connection.execution_options(isolation_level="AUTOCOMMIT")
            _set(connection, before)
            connection.rollback()
            connection.execution_options(isolation_level=level)


def _set(connection: Connection, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        connection.exec_driver_sql(f"SET {name} = {sql.literal(value)}")


@contextmanager
def sqlite_session(connection: Connection, *, locked: bool) -> Iterator[None]:
    """Have transactions hold DDL, turn foreign keys off for rebuilds and, where `locked`, keep others out of the file."""
    before = on_sqlite(connection, lambda driver: _take_file(driver, locked=locked))
    event.listen(connection, "begin", _begin_immediate)
    try:
        with warnings.catch_warnings():
            # `rebuilt` brings them along by itself
            warnings.filterwarnings("ignore", "Skipped unsupported reflection of expression-based index")
            yield
    finally:
        event.remove(connection, "begin", _begin_immediate)
        connection.rollback()
        on_sqlite(connection, lambda driver: _give_file_back(driver, before))


@dataclass(frozen=True, slots=True)
class _FileBefore:
    """What a lent connection was set to."""

    isolation_level: Any
    foreign_keys: int


def _take_file(driver: sqlite3.Connection, *, locked: bool) -> _FileBefore:
    level = driver.isolation_level
    driver.isolation_level = None
    (foreign_keys,) = driver.execute("PRAGMA foreign_keys").fetchone()
    driver.execute("PRAGMA foreign_keys = OFF")
    if locked:
        hold_file(driver)  # before anything is read: only here does one who waits have patience
    driver.execute("PRAGMA busy_timeout = 60000")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # is it a database at all?
    return _FileBefore(level, foreign_keys)


def _give_file_back(driver: sqlite3.Connection, before: _FileBefore) -> None:
    driver.execute("PRAGMA locking_mode = NORMAL")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only then is the lock let go
    driver.execute(f"PRAGMA foreign_keys = {before.foreign_keys}")
    driver.isolation_level = before.isolation_level


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
