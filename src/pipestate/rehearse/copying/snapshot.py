"""Snapshot of production: every table is locked against change, then the snapshot is taken and exported.

pg_dump uses the opposite order: a table truncated or rewritten between its snapshot and its lock looks empty.
LOCK takes no snapshot; the first query after it does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from psycopg2 import Error, errors
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.postgresql import SESSION_SETTINGS
from pipestate.database.urls import shown
from pipestate.rehearse.copying.inventory import Inventory, read_inventory
from pipestate.rehearse.copying.require import unreadable_archives
from pipestate.rehearse.copying.session import ask, said, session

TRIES = 3
LOCK_TIMEOUT = SESSION_SETTINGS["lock_timeout"]
# No timeout ends the transaction early, and names are fully qualified.
SETTINGS = {
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "search_path": "pg_catalog",
}
SINCE = {"transaction_timeout": 170000}
LOCKED = (
    "somebody has held a table of {url} locked for {time}, such as a migration that runs: nothing was copied, try again "
    "when it is over"
)
RESTLESS = "tables of {url} come and go faster than they can be copied: nothing was copied, try again"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session that holds a snapshot of production, the snapshot's id, and the inventory."""

    url: URL
    driver: Any
    id: str
    found: Inventory


@contextmanager
def reading(url: URL) -> Iterator[Any]:
    """Open a read-only session; each transaction reads one snapshot."""
    with session(url) as driver:
        driver.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ, readonly=True)
        yield driver


@contextmanager
def snapshot(url: URL) -> Iterator[Snapshot]:
    """Hold one snapshot of production, with every table's shape locked, until the end."""
    with reading(url) as driver:
        with _translate_errors(url):
            found = _locked(driver, url)
            ((number,),) = ask(driver, "SELECT pg_catalog.pg_export_snapshot()")
        yield Snapshot(url, driver, str(number), found)


def read_production(url: URL) -> Inventory:
    """Read production's inventory, and release all locks."""
    with reading(url) as driver, _translate_errors(url):
        return _read_unlocked(driver)


@contextmanager
def _translate_errors(url: URL) -> Iterator[None]:
    try:
        yield
    except errors.LockNotAvailable as error:
        raise Unreachable(LOCKED.format(url=shown(url), time=LOCK_TIMEOUT)) from error
    except Error as error:
        raise Unreachable(f"{shown(url)} cannot be copied: {said(error, url)}") from error


def _read_unlocked(driver: Any) -> Inventory:
    """Read the inventory on the session's search path; the size of a table needs a lock."""
    ask(driver, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    return read_inventory(driver)


def _locked(driver: Any, url: URL) -> Inventory:
    """Lock the tables, and read them again; start over if a table was created or dropped in between."""
    for _ in range(TRIES):
        before = _read_unlocked(driver)
        driver.rollback()
        known = [name for name, since in SINCE.items() if driver.server_version >= since]
        values = {**SETTINGS, **dict.fromkeys(known, "0")}
        ask(driver, "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in values.items()))
        with suppress(errors.UndefinedTable, errors.InvalidSchemaName):
            _lock(driver, _lockable(before))
            found = read_inventory(driver)
            if _lockable(found) == _lockable(before):
                return replace(found, search_path=before.search_path)  # the session's own path has changed
        driver.rollback()
    raise Unreachable(RESTLESS.format(url=shown(url)))


def _lockable(found: Inventory) -> set[str]:
    left_out = {each.oid for each in unreadable_archives(found)}
    return {each.quoted for each in found.relations if each.oid not in left_out}


def _lock(driver: Any, tables: set[str]) -> None:
    if tables:
        names = ", ".join(f"ONLY {table}" for table in sorted(tables))
        ask(driver, f"LOCK TABLE {names} IN ACCESS SHARE MODE")
