"""SQLite: start of connections, and permitted actions of a read."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database.drivers import on_sqlite

IS_FILE = True

# Actions that a read may perform. Listed pragmas serve as table-valued functions, which need the same action.
READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
PRAGMAS = frozenset(
    [
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "foreign_key_check",
        "compile_options",
    ]
)
EFFECTS = frozenset({"load_extension", "writefile", "edit", "fts3_tokenizer", "readfile"})


def create_engine(url: sa.URL, *, readonly: bool) -> sa.Engine:
    """Create an engine without a pool; a reader requires an existing file."""
    if readonly and url.database and url.database != ":memory:" and not Path(url.database).is_file():
        raise Unreachable(f"there is no file {url.database}: check the path in the URL")
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", _foreign_keys_on)
    return engine


def begin_reading(connection: sa.Connection, *, snapshot: str | None, path: Sequence[str]) -> sa.Connection:
    """Begin a read-only transaction on one snapshot; `snapshot` and `path` have no meaning for a file."""
    del snapshot, path
    on_sqlite(connection, _lock_down)
    return connection


def begin_writing(connection: sa.Connection) -> None:
    """Leave the transaction unchanged: SQLite has no settings of roles or databases."""
    del connection


@contextmanager
def read_only_session(connection: sa.Connection) -> Iterator[None]:
    """Refuse writes through this connection for the duration of the block; its transaction stays."""
    _refuse_hidden(connection)
    on_sqlite(connection, _refuse_writes)
    try:
        yield
    finally:
        on_sqlite(connection, _allow_writes)


def server_version(connection: sa.Connection) -> str:
    """Read the version of the library."""
    return str(connection.exec_driver_sql("SELECT sqlite_version()").scalar_one())


def database_name(url: sa.URL) -> str | None:
    """Return the name of the database: its file name without suffix."""
    return Path(url.database or "").stem


def address(url: sa.URL) -> tuple[object, ...]:
    """Return the identity of a database: the resolved path of its file."""
    return ("sqlite", str(Path(url.database or "").resolve()))


def _foreign_keys_on(driver: Any, _record: object) -> None:
    driver.execute("PRAGMA foreign_keys = ON")


def _lock_down(driver: sqlite3.Connection) -> None:
    driver.isolation_level = None
    driver.execute("PRAGMA query_only = ON")
    driver.execute("BEGIN")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # takes the snapshot
    driver.set_authorizer(_authorize)


def _refuse_hidden(connection: sa.Connection) -> None:
    """Refuse a temporary table that hides a table of the file: SQLite finds it first."""
    rows = connection.exec_driver_sql(
        "SELECT own.name FROM sqlite_temp_master AS own JOIN sqlite_master AS kept ON lower(kept.name) = lower(own.name) "
        "WHERE own.type IN ('table', 'view') AND kept.type IN ('table', 'view')"
    )
    if hidden := ", ".join(str(name) for (name,) in rows):
        raise ConfigError(f"{hidden} is hidden by a temporary table of this connection: drop that one first")


def _refuse_writes(driver: sqlite3.Connection) -> None:
    driver.execute("PRAGMA query_only = ON")
    driver.set_authorizer(_authorize)


def _allow_writes(driver: sqlite3.Connection) -> None:
    driver.set_authorizer(None)
    driver.set_progress_handler(None, 0)
    driver.execute("PRAGMA query_only = OFF")


def _authorize(action: int, first: str | None, second: str | None, _db: str | None, _via: str | None) -> int:
    """Authorize an action of a statement: only reads are permitted."""
    if action in READS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() in EFFECTS else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if (first or "").lower() in PRAGMAS else sqlite3.SQLITE_DENY
    # Table-valued pragmas declare their table, which SQLite authorizes as an update of its catalogue.
    is_catalogue = first in ("sqlite_master", "sqlite_schema", "sqlite_temp_master")
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_UPDATE and is_catalogue else sqlite3.SQLITE_DENY
