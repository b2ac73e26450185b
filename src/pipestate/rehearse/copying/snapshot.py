"""One moment of production: every table is locked against change, then the snapshot is taken, and exported.

In this order, unlike in pg_dump: what is truncated or rewritten between a snapshot and a lock looks empty to that
snapshot. LOCK takes none; the first query behind it does.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from psycopg2 import Error, errors
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ
from sqlalchemy import URL

from pipestate.config import shown
from pipestate.engines.world import WORLD
from pipestate.errors import Unreachable
from pipestate.rehearse.copying.inventory import Inventory, read_inventory
from pipestate.rehearse.copying.require import unreadable_archives
from pipestate.rehearse.copying.session import ask, said, session

TRIES = 3
LOCK_TIMEOUT = WORLD["lock_timeout"]
# Values are written so that the clone, with the same settings, reads what they were.
SETTINGS = {
    **{
        name: value for name, value in WORLD.items() if name != "transaction_read_only"
    },  # the session says that
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
SINCE = {"transaction_timeout": 170000}
LOCKED = (
    "somebody has held a table of {url} locked for {time}, such as a migration that runs: nothing was copied, try again "
    "when it is over"
)
RESTLESS = "tables of {url} come and go faster than they can be copied: nothing was copied, try again"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session whose transaction sees one moment, that moment's number, and what was there."""

    driver: Any
    id: str
    found: Inventory


@contextmanager
def reading(url: URL) -> Iterator[Any]:
    """Open a session whose transactions read one moment each, and cannot write."""
    with session(url) as driver:
        driver.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ, readonly=True)
        yield driver


@contextmanager
def snapshot(url: URL) -> Iterator[Snapshot]:
    """Hold one moment of production, in which no table changes its shape, until the end."""
    with reading(url) as driver:
        with _told(url):
            found = _locked(driver, url)
            ((number,),) = ask(driver, "SELECT pg_catalog.pg_export_snapshot()")
        yield Snapshot(driver, str(number), found)


def look(url: URL) -> Inventory:
    """Read what production has, and hold nothing."""
    with reading(url) as driver, _told(url):
        return _look(driver)


@contextmanager
def _told(url: URL) -> Iterator[None]:
    try:
        yield
    except errors.LockNotAvailable as error:
        raise Unreachable(LOCKED.format(url=shown(url), time=LOCK_TIMEOUT)) from error
    except Error as error:
        raise Unreachable(f"{shown(url)} cannot be copied: {said(error, url)}") from error


def _look(driver: Any) -> Inventory:
    """Read what is there, with the path that the session has; to know its size, a table must not be locked."""
    ask(driver, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    return read_inventory(driver)


def send_settings(driver: Any, path: str = "pg_catalog") -> None:
    """Set, until the end of the transaction, how values are written and read, and that nothing ends it early.

    With the catalogue alone on the path, names that are values (of a column of type regclass) are written in full.
    """
    known = [name for name, since in SINCE.items() if driver.server_version >= since]
    values = {**SETTINGS, **dict.fromkeys(known, "0")}
    settings = [f"SET LOCAL {name} = '{value}'" for name, value in values.items()]
    ask(driver, "; ".join([*settings, f"SET LOCAL search_path = {path}"]))


def _locked(driver: Any, url: URL) -> Inventory:
    """Lock what is there, and look again: where a table came or went in between, begin anew."""
    for _ in range(TRIES):
        before = _look(driver)
        driver.rollback()
        send_settings(driver)
        with suppress(errors.UndefinedTable, errors.InvalidSchemaName):
            _lock(driver, _lockable(before))
            found = read_inventory(driver)
            if _lockable(found) == _lockable(before):
                return replace(found, search_path=before.search_path)  # ours is another by now
        driver.rollback()
    raise Unreachable(RESTLESS.format(url=shown(url)))


def _lockable(found: Inventory) -> set[str]:
    left_out = {each.oid for each in unreadable_archives(found)}
    return {each.quoted for each in found.relations if each.oid not in left_out}


def _lock(driver: Any, tables: set[str]) -> None:
    if tables:
        names = ", ".join(f"ONLY {table}" for table in sorted(tables))
        ask(driver, f"LOCK TABLE {names} IN ACCESS SHARE MODE")
