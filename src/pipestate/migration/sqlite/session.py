"""A migration on SQLite: transactions that hold DDL, foreign keys off for rebuilds, and the file locked."""

import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import uniform
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL, Connection, event

from pipestate.database.drivers import on_sqlite
from pipestate.migration.losses import GuardedRun

CONNECT_ARGUMENTS: dict[str, Any] = {}
MIGRATION_PATIENCE_S = 600.0


@contextmanager
def open_session(connection: Connection, *, locked: bool) -> Iterator[None]:
    """Make transactions hold DDL, turn foreign keys off for rebuilds and, with `locked`, lock the file."""
    before = on_sqlite(connection, lambda driver: _take_file(driver, locked=locked))
    event.listen(connection, "begin", _begin_immediate)
    try:
        with warnings.catch_warnings():
            # `rebuilt` keeps these indexes by itself.
            warnings.filterwarnings("ignore", "Skipped unsupported reflection of expression-based index")
            yield
    finally:
        event.remove(connection, "begin", _begin_immediate)
        connection.rollback()
        on_sqlite(connection, lambda driver: _give_file_back(driver, before))


@contextmanager
def hold_lock(connection: Connection) -> Iterator[None]:
    """Switch foreign_keys off around the transactions of a run: the file has one writer anyway."""
    was_on = on_sqlite(connection, _switch_off)
    try:
        yield
    finally:
        if was_on and not connection.closed and not connection.invalidated:
            if on_sqlite(connection, lambda driver: driver.in_transaction):
                _switch_on_later(connection)  # env.py itself commits
            else:
                on_sqlite(connection, _switch_on)


def switch_foreign_keys_off(connection: Connection) -> None:
    """Switch foreign_keys off until the next transaction; inside a transaction the pragma does nothing.

    With it on, the rebuild of a table deletes the rows that point at it, or sets their keys to NULL.
    """
    if on_sqlite(connection, _switch_off):
        _switch_on_later(connection)


def _switch_off(driver: sqlite3.Connection) -> bool:
    """Switch foreign_keys off, and return whether they were on and could be."""
    was_on = not driver.in_transaction and bool(driver.execute("PRAGMA foreign_keys").fetchone()[0])
    if was_on:
        driver.execute("PRAGMA foreign_keys = OFF")
    return was_on


def _switch_on(driver: sqlite3.Connection) -> None:
    driver.execute("PRAGMA foreign_keys = ON")


def _switch_on_later(connection: Connection) -> None:
    """Switch foreign_keys on when the next transaction begins, or the connection returns to its pool."""
    switched: list[Any] = [connection.connection.dbapi_connection]

    def switch_on(driver: Any) -> None:
        if driver is not None and driver in switched:
            switched.clear()
            driver.cursor().execute("PRAGMA foreign_keys = ON")

    event.listen(connection, "begin", lambda begun: switch_on(begun.connection.dbapi_connection))
    event.listen(connection.engine.pool, "checkin", lambda driver, _record: switch_on(driver))


def assert_lock(connection: Connection) -> None:
    """Allow everything: a file has no pooler."""
    del connection


def require_recordable(connection: Connection) -> None:
    """Allow everything: a role that may write to the file may write to all of it."""
    del connection


def broken_references(connection: Connection) -> set[tuple[Any, ...]]:
    """Find references that foreign keys would have refused; they are off for the rebuilds."""
    return {tuple(row) for row in connection.exec_driver_sql("PRAGMA foreign_key_check")}


def is_new(url: URL) -> bool:
    """Say whether the file is missing; the first connection creates it."""
    return bool(url.database) and not Path(str(url.database)).exists()


def write_head(migration: MigrationContext) -> None:
    """Write nothing: a script for SQLite has only its statements."""
    del migration


def assert_start(migration: MigrationContext, step: RevisionStep) -> None:
    """Write nothing: SQL alone cannot stop a script there."""
    del migration, step


def write_schema_record(heads: str | None) -> None:
    """Write nothing: SQL alone cannot read first."""
    del heads


def write_step(
    run: GuardedRun, migration: MigrationContext, step: RevisionStep, body: Callable[[], None]
) -> None:
    """Write the step as it is: SQL alone cannot compare there."""
    del run, migration, step
    body()


@dataclass(frozen=True, slots=True)
class _FileBefore:
    """The settings of a lent connection, to be restored."""

    isolation_level: Any
    foreign_keys: int


def _take_file(driver: sqlite3.Connection, *, locked: bool) -> _FileBefore:
    level = driver.isolation_level
    driver.isolation_level = None
    (foreign_keys,) = driver.execute("PRAGMA foreign_keys").fetchone()
    driver.execute("PRAGMA foreign_keys = OFF")
    if locked:
        hold_file(driver)  # before the first read: only here a waiting session has patience
    driver.execute("PRAGMA busy_timeout = 60000")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # fails unless the file is a database
    return _FileBefore(level, foreign_keys)


def hold_file(driver: sqlite3.Connection, *, patience_s: float = MIGRATION_PATIENCE_S) -> None:
    """Hold the file's lock from transaction to transaction: one migration at a time.

    The lock is all or nothing: a waiting session must hold no shared lock. In this mode it would keep that lock,
    two waiting sessions would wait for each other, and the working one could never write. So a session that failed
    leaves the mode, reads once, which releases the lock, and waits for a time of its own.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    give_up_at = time.monotonic() + patience_s
    while True:
        driver.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            driver.execute("BEGIN EXCLUSIVE")
            driver.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= give_up_at:
                raise
            driver.execute("PRAGMA locking_mode = NORMAL")
            with suppress(sqlite3.OperationalError):
                driver.execute("SELECT count(*) FROM sqlite_master").fetchone()
            time.sleep(uniform(0.02, 0.3))
        else:
            return


def _give_file_back(driver: sqlite3.Connection, before: _FileBefore) -> None:
    driver.execute("PRAGMA locking_mode = NORMAL")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # this read releases the lock
    driver.execute(f"PRAGMA foreign_keys = {before.foreign_keys}")
    driver.isolation_level = before.isolation_level


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
