"""Connections: a reader that cannot write, whatever the SQL says, and a writer for the ledger."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError, PendingRollbackError

from pipestate.config import shown, without_secrets
from pipestate.drivers import TAKES_NO_WRITES, cause_of, message, on_sqlite, refuses_writes
from pipestate.errors import Unreachable
from pipestate.interrupt import is_stopped, listen, telling
from pipestate.world import authorize, set_world

CONNECT_TIMEOUT_S = 10
CONNECT_ARGUMENTS = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pipestate"}
CONFLICT = "conflict with recovery"  # the connection is gone, and with it the code: only the words are left

# For one transaction, not for the session and not at its start: PgBouncer refuses a connection that
# brings such options, and hands the next transaction to another session.
# `row_security = off`: a check fails where a policy would hide rows from it, instead of passing.
# One statement a call: not every driver takes several.
SETTINGS = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL row_security = off",
)

_MEANT: ContextVar[URL] = ContextVar("meant")  # what a shared engine connects to now

SEARCH = text("SELECT pg_catalog.set_config('search_path', :path, true)")


@contextmanager
def reader(
    url: URL, *, snapshot: str | None = None, path: Sequence[str] = (), engine: Engine | None = None
) -> Iterator[Connection]:
    """A connection inside one read-only transaction that sees one snapshot.

    PostgreSQL: REPEATABLE READ, READ ONLY, which the SQL of a single statement cannot undo; with
    `snapshot`, the one that another reader exported; with `path`, these schemas are the search path, whatever
    role and database say; with `engine`, a shared one connects. SQLite: `query_only` and an authorizer, which
    together refuse what either alone lets through (PRAGMA, ATTACH, VACUUM INTO).
    """
    with (
        telling(lambda: "what ran was cancelled, nothing was changed"),
        reachable(url),
        _connected(url, engine or engine_for(url, readonly=True)) as plain,
    ):
        if url.get_backend_name() == "sqlite":
            on_sqlite(plain, _lock_down)
            yield plain
            return
        connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        if snapshot is not None:
            connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        if path:
            connection.execute(SEARCH, {"path": _quoted(connection, path)})
        set_world(connection)  # from this query on the transaction cannot be made to write
        yield connection


@contextmanager
def _connected(url: URL, engine: Engine) -> Iterator[Connection]:
    """Connect to this database; a shared engine is told which one is meant."""
    meant = _MEANT.set(url)
    try:
        connection = engine.connect()
    finally:
        _MEANT.reset(meant)
    with connection:
        yield connection


@contextmanager
def writer(url: URL) -> Iterator[Connection]:
    """A connection inside a transaction that is committed at the end."""
    rolled_back = "what ran was cancelled and rolled back"
    with telling(lambda: rolled_back), reachable(url), engine_for(url).begin() as connection:
        if url.get_backend_name() != "sqlite":
            apply_settings(connection)
        yield connection


def apply_settings(connection: Connection) -> None:
    """PostgreSQL: make this transaction independent of what the role or the database has set."""
    for setting in SETTINGS:
        connection.exec_driver_sql(setting)


def engine_for(url: URL, *, readonly: bool = False) -> Engine:
    """An engine without a pool: a command connects, works and goes."""
    if url.get_backend_name() != "sqlite":
        listen()
        # SQLAlchemy would ask each new connection for the type hstore, which then is a text instead.
        return create_engine(url, poolclass=NullPool, connect_args=CONNECT_ARGUMENTS, use_native_hstore=False)
    if readonly and url.database and url.database != ":memory:" and not Path(url.database).is_file():
        raise Unreachable(f"there is no file {url.database}: check the path in the URL")
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "connect", _foreign_keys_on)
    return engine


def shared_engine() -> Engine:
    """Make an engine for PostgreSQL databases of any URL, which `reader` names: for those who ask a thousand.

    An engine of its own asks each server first how it is set up, and compiles every statement anew.
    """
    engine = engine_for(URL.create("postgresql+psycopg2"))
    event.listen(engine, "do_connect", _connect_to_meant)
    return engine


def _connect_to_meant(dialect: Any, _record: object, _arguments: object, _options: object) -> Any:
    """Connect to the database that is meant, instead of the engine's own."""
    arguments, options = dialect.create_connect_args(_MEANT.get())
    return dialect.connect(*arguments, **(options | CONNECT_ARGUMENTS))


@contextmanager
def reachable(url: URL) -> Iterator[None]:
    """Turn a connection that fails or is lost into one sentence without a password."""
    try:
        yield
    except OperationalError as error:
        raise Unreachable(_cannot_reach(url, error)) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unreachable(_cannot_reach(url, error)) from error
        if refuses_writes(error):
            raise Unreachable(f"{shown(url)} {TAKES_NO_WRITES} ({_reason(url, error)})") from error
        raise Unreachable(f"{_reason(url, error)} ({shown(url)})") from error
    except PendingRollbackError as error:  # somebody went on with a connection that is lost
        first = cause_of(error)
        raise Unreachable(_cannot_reach(url, first) if first else f"{error} ({shown(url)})") from error


def send(connection: Connection, *statements: str) -> None:
    """Run statements that return nothing: in one round trip where the driver can, as ours can."""
    together = connection.dialect.driver == "psycopg2"
    for statement in ("; ".join(statements),) if together else statements:
        connection.exec_driver_sql(statement)


def set_deadline(connection: Connection, seconds: float) -> None:
    """SQLite: interrupt the statements that follow when the time is over, or Ctrl-C was heard elsewhere."""
    end = time.monotonic() + seconds
    on_sqlite(
        connection,
        lambda driver: driver.set_progress_handler(lambda: time.monotonic() > end or is_stopped(), 10_000),
    )


def _quoted(connection: Connection, names: Sequence[str]) -> str:
    return ", ".join(connection.dialect.identifier_preparer.quote_identifier(name) for name in names)


def _cannot_reach(url: URL, error: DBAPIError) -> str:
    reason = _reason(url, error)
    if CONFLICT in reason:
        return (
            f"{shown(url)} is a standby, and ended the connection to replay what a query was reading: ask again, or ask the "
            f"primary; max_standby_streaming_delay is how long it waits ({CONFLICT})"
        )
    return f"cannot reach {shown(url)}: {reason}; check that the server runs and the URL is right"


def _reason(url: URL, error: DBAPIError) -> str:
    """Say in one line what the driver said, without the question that libpq puts behind it."""
    said = " ".join(message(error).split()).partition(" Is the server running ")[0]
    return without_secrets(said, url)


def _foreign_keys_on(driver: Any, _record: object) -> None:
    driver.execute("PRAGMA foreign_keys = ON")


def _lock_down(driver: sqlite3.Connection) -> None:
    driver.isolation_level = None
    driver.execute("PRAGMA query_only = ON")
    driver.execute("BEGIN")
    driver.execute("SELECT count(*) FROM sqlite_master").fetchone()  # takes the snapshot
    driver.set_authorizer(authorize)
