"""Snapshot of production: every table is locked against change, then the snapshot is taken and exported.

The inventory is read from the catalogue inside it; each query needs only a role that may read. pg_dump uses the
opposite order: a table truncated or rewritten between its snapshot and its lock looks empty. LOCK takes no
snapshot; the first query after it does. Locks before the snapshot are outside SQLAlchemy's API, so sessions are
psycopg2's own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg2
from psycopg2 import Error, errors
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.interrupt import listen
from pipestate.database.postgresql import CONNECT_TIMEOUT_S, OWN_PATH, SESSION_SETTINGS
from pipestate.database.queries import named_query
from pipestate.database.urls import shown, without_secrets
from pipestate.verify.session_safety import ARCHIVE

Rows = list[tuple[Any, ...]]
OWN = """n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND NOT EXISTS (
    SELECT FROM pg_depend e
    WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')"""
CALLED = "CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END"
TRIES = 3
LOCK_TIMEOUT = SESSION_SETTINGS["lock_timeout"]
# No timeout ends the transaction early, and names are fully qualified.
SETTINGS = {
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "search_path": OWN_PATH,
}
HAS_TRANSACTION_TIMEOUT = 170000
LOCKED = (
    "another session, such as a migration, has locked a table of {url} for {time}: nothing was copied, try again "
    "when it has ended"
)
RESTLESS = "tables of {url} come and go faster than they can be copied: nothing was copied, try again"


@contextmanager
def session(url: URL, *, autocommit: bool = False) -> Iterator[Any]:
    """Connect, and close at the end; uncommitted changes are lost."""
    listen()
    arguments = url.get_dialect()().create_connect_args(url)[1]
    named = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pipestate clone"}
    try:
        driver = psycopg2.connect(**{**named, **arguments})
    except psycopg2.Error as error:
        raise Unreachable(
            f"cannot reach {shown(url)}: {said(error, url)}; check that the server runs and the URL is right"
        ) from error
    try:
        driver.autocommit = autocommit
        yield driver
    finally:
        driver.close()


def fetch(driver: Any, query: str) -> Rows:
    """Run a query, and return its rows, if it has any."""
    with driver.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def quoted(text: str) -> str:
    """Write a text as an SQL literal that is independent of the server's settings.

    >>> quoted("it's"), quoted("C:\\\\x")
    ("'it''s'", " E'C:\\\\\\\\x'")
    """
    doubled = text.replace("'", "''")
    return " E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"


def said(error: BaseException, url: URL) -> str:
    """Return the server's message of an error, on one line and without a password."""
    diagnosed = getattr(getattr(error, "diag", None), "message_primary", None)
    return without_secrets(" ".join(str(diagnosed or error).split()), url)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or the parent of partitions; `quoted` is its name in SQL."""

    oid: int
    quoted: str
    name: str
    schema: str
    has_rows: bool
    bytes: int
    is_readable: bool
    hides_rows: bool
    is_unlogged: bool
    is_version_table: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """A sequence, and the column that owns it, if any."""

    quoted: str
    name: str
    is_readable: bool
    increment: int
    table: str | None
    column: str | None


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension, and some objects that need it."""

    name: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The whole inventory. `database` is the row of pg_database; its columns differ by version."""

    version: int
    role: str
    search_path: str
    bytes: int
    in_recovery: bool
    encoding: str
    has_public: bool
    large_objects: int
    database: dict[str, Any]
    relations: tuple[Relation, ...]
    counters: tuple[Counter, ...]
    extensions: tuple[Extension, ...]
    extension_tables: tuple[str, ...]
    materialized_views: tuple[str, ...]
    foreign_tables: tuple[str, ...]
    roles: tuple[str, ...]  # SQL statements
    settings: Mapping[str, str]
    over_tls: bool = False

    @property
    def name(self) -> str:
        return str(self.database["datname"])

    @property
    def path(self) -> str:
        """The search path, in the syntax of SET."""
        return self.search_path or "''"

    @property
    def unreadable_archives(self) -> list[Relation]:
        """The unreadable archived tables: pending revisions do not need them."""
        return [each for each in self.relations if not each.is_readable and each.schema == ARCHIVE]

    @property
    def unreachable(self) -> list[Relation]:
        """The unlogged tables of a standby, which has no rows of them."""
        return [each for each in self.relations if self.in_recovery and each.is_unlogged]

    @property
    def locale(self) -> str:
        own = self.database
        return str(own.get("datlocale") or own.get("daticulocale") or own["datcollate"])


def read_inventory(driver: Any) -> Inventory:
    """Read the inventory inside the open transaction."""

    def read(name: str) -> Rows:
        return fetch(driver, named_query("rehearse.copying", name, own=OWN, called=CALLED))

    ((about,),) = read("database")
    fetch(driver, f"SET LOCAL search_path = {OWN_PATH}")
    return Inventory(
        **about,
        relations=tuple(Relation(*row) for row in read("relations")),
        counters=tuple(Counter(*row) for row in read("sequences")),
        extensions=tuple(Extension(name, tuple(needed_by)) for name, needed_by in read("extensions")),
        extension_tables=tuple(name for (name,) in read("extension_tables")),
        materialized_views=tuple(name for (name,) in read("materialized_views")),
        foreign_tables=tuple(name for (name,) in read("foreign_tables")),
        roles=tuple(statement for (statement,) in (*read("roles"), *read("memberships"))),
        settings=dict(read("database_settings")),
        over_tls=bool(driver.info.ssl_in_use),
    )


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
def snapshot(url: URL, known: Inventory) -> Iterator[Snapshot]:
    """Hold one snapshot of production, with every table's shape locked, until the end."""
    with reading(url) as driver:
        with _translate_errors(url):
            found = _locked(driver, url, known)
            ((number,),) = fetch(driver, "SELECT pg_export_snapshot()")
        yield Snapshot(url, driver, str(number), found)


def read_production(url: URL) -> Inventory:
    """Read production's inventory on the session's search path, and release all locks."""
    with reading(url) as driver, _translate_errors(url):
        fetch(driver, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")  # the size of a table needs a lock
        return read_inventory(driver)


@contextmanager
def _translate_errors(url: URL) -> Iterator[None]:
    try:
        yield
    except errors.LockNotAvailable as error:
        raise Unreachable(LOCKED.format(url=shown(url), time=LOCK_TIMEOUT)) from error
    except Error as error:
        raise Unreachable(f"{shown(url)} cannot be copied: {said(error, url)}") from error


def _locked(driver: Any, url: URL, known: Inventory) -> Inventory:
    """Lock the known tables, and read them again; start over if a table was created or dropped in between."""
    for _ in range(TRIES):
        has_timeout = driver.server_version >= HAS_TRANSACTION_TIMEOUT
        values = SETTINGS | ({"transaction_timeout": "0"} if has_timeout else {})
        fetch(driver, "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in values.items()))
        with suppress(errors.UndefinedTable, errors.InvalidSchemaName):
            if names := ", ".join(f"ONLY {table}" for table in sorted(_lockable(known))):
                fetch(driver, f"LOCK TABLE {names} IN ACCESS SHARE MODE")
            found = read_inventory(driver)
            if _lockable(found) == _lockable(known):
                return replace(found, search_path=known.search_path)  # the session's own path has changed
        driver.rollback()
        known = replace(read_production(url), search_path=known.search_path)
    raise Unreachable(RESTLESS.format(url=shown(url)))


def _lockable(found: Inventory) -> set[str]:
    left_out = {each.oid for each in found.unreadable_archives}
    return {each.quoted for each in found.relations if each.oid not in left_out}
