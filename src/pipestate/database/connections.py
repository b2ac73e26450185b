"""Connections: a read-only reader for any SQL, a writer for the ledger, and the choice of an engine.

`choose` selects the implementation that is registered under the name of a dialect. The modules `postgresql` and
`sqlite` have the same names; mypy compares them with `Engine`.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import DBAPIError, OperationalError, PendingRollbackError

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database import postgresql, sqlite
from pipestate.database.drivers import (
    TAKES_NO_WRITES,
    cause_of,
    message,
    refuses_writes,
    run_as_written,
    sqlstate,
)
from pipestate.database.interrupt import explain_interrupt
from pipestate.database.postgresql import CONNECT_ARGUMENTS
from pipestate.database.urls import shown, without_secrets

T = TypeVar("T")
LACKS_A_RIGHT = "; connect as the owner of the tables, or grant the missing right to this role"
CONFLICT = "conflict with recovery"  # a lost connection has no SQLSTATE, only this text
# An advisory lock belongs to one database: a session that sees it is connected to the same one.
SEES_LOCK = sa.text(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.classid = :high AND l.objid = :low "
    "AND d.datname = pg_catalog.current_database())"
)
SHARED = "\0"
_MEANT: ContextVar[URL] = ContextVar("meant")  # current target of a shared engine


# A connection, an engine of SQLAlchemy or Alembic's context, which have a dialect; a URL; or the name itself.
OfEngine = Any


def choose(implementations: Mapping[str, T], on: OfEngine) -> T:
    """Select the implementation for an engine; raise a readable error if there is none."""
    name = name_of(on)
    if name not in implementations:
        raise ConfigError(f"pipestate works with PostgreSQL and SQLite, not with {name}")
    return implementations[name]


def name_of(on: OfEngine) -> str:
    """Return the name of the engine of a connection, a context or a URL.

    >>> name_of("sqlite")
    'sqlite'
    """
    if isinstance(on, URL):
        return on.get_backend_name()
    return on if isinstance(on, str) else str(on.dialect.name)


class Engine(Protocol):
    """Interface of an engine; the modules of the engines document the functions.

    `IS_FILE`: the database is a file with one writer, without server, sessions, roles or settings of a transaction.
    """

    IS_FILE: bool

    def create_engine(self, url: sa.URL, *, readonly: bool) -> sa.Engine: ...
    def own_path(
        self, connection: Connection, ask: Callable[[sa.Connection, str], Any] = ...
    ) -> AbstractContextManager[None]: ...
    def begin_reading(
        self, connection: sa.Connection, *, snapshot: str | None, path: Sequence[str]
    ) -> sa.Connection: ...
    def begin_writing(self, connection: sa.Connection) -> None: ...
    def read_only_session(self, connection: sa.Connection) -> AbstractContextManager[None]: ...
    def server_version(self, connection: sa.Connection) -> str: ...
    def database_name(self, url: sa.URL) -> str | None: ...
    def address(self, url: sa.URL) -> tuple[object, ...]: ...


ENGINES: Mapping[str, Engine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: OfEngine) -> Engine:
    """Select the engine of a connection, Alembic's context, a URL or a dialect name."""
    return choose(ENGINES, on)


@contextmanager
def reader(
    url: URL, *, snapshot: str | None = None, path: Sequence[str] = (), engine: sa.Engine | None = None
) -> Iterator[Connection]:
    """Connect inside one read-only transaction that sees one snapshot.

    PostgreSQL: REPEATABLE READ, READ ONLY, which a single statement cannot undo. `snapshot` is the snapshot
    exported by another reader. `path` overrides the search path of role and database. `engine` is a shared engine.
    SQLite: `query_only` and an authorizer. Together they also refuse PRAGMA, ATTACH and VACUUM INTO.
    """
    with (
        explain_interrupt(lambda: "running queries were cancelled; nothing was changed"),
        reachable(url),
        _connected(url, engine or engine_for(url, readonly=True)) as plain,
    ):
        yield engine_of(url).begin_reading(plain, snapshot=snapshot, path=path)


@contextmanager
def _connected(url: URL, engine: sa.Engine) -> Iterator[Connection]:
    """Connect to this database; a shared engine reads the target from a context variable."""
    meant = _MEANT.set(url)
    try:
        connection = engine.connect()
    finally:
        _MEANT.reset(meant)
    with connection:
        yield connection


@contextmanager
def writer(url: URL) -> Iterator[Connection]:
    """Connect inside a transaction that is committed at the end."""
    rolled_back = "running statements were cancelled and rolled back"
    with explain_interrupt(lambda: rolled_back), reachable(url), engine_for(url).begin() as connection:
        engine_of(url).begin_writing(connection)
        yield connection


@contextmanager
def autocommit(url: URL) -> Iterator[Connection]:
    """Connect, and let each statement commit by itself."""
    with reachable(url), engine_for(url).connect() as plain:
        yield plain.execution_options(isolation_level="AUTOCOMMIT")


def engine_for(url: URL, *, readonly: bool = False) -> sa.Engine:
    """Create an engine without a pool: a command connects once."""
    return engine_of(url).create_engine(url, readonly=readonly)


def shared_engine() -> sa.Engine:
    """Create one engine for many PostgreSQL databases; `reader` names the URL of each.

    Separate engines would query the setup of each server and compile every statement again.
    """
    engine = engine_for(URL.create("postgresql+psycopg2", database=SHARED))  # no other URL has this name
    event.listen(engine, "do_connect", _connect_to_meant)
    return engine


def _connect_to_meant(dialect: Any, _record: object, _arguments: object, _options: object) -> Any:
    """Connect to the current target instead of the engine's URL."""
    arguments, options = dialect.create_connect_args(_MEANT.get())
    return dialect.connect(*arguments, **(options | CONNECT_ARGUMENTS))


def is_same(connection: Connection, url: URL) -> bool:
    """Tell whether a connection is to this database, whichever URL it uses."""
    return name_of(connection) == name_of(url) and choose(IS_SAME, url)(connection, url)


def _sees_lock(connection: Connection, url: URL) -> bool:
    """Tell whether a connection sees an advisory lock that is held in this database."""
    key = {"high": secrets.randbits(31), "low": secrets.randbits(31)}
    with writer(url) as ours:
        ours.execute(sa.text("SELECT pg_advisory_xact_lock(:high, :low)"), key)
        return bool(connection.execute(SEES_LOCK, key).scalar())


def _is_file(connection: Connection, url: URL) -> bool:
    """Tell whether a connection is to this file, in any spelling of its path."""
    files = {name: file for _, name, file in connection.exec_driver_sql("PRAGMA database_list")}
    named = "" if url.database in (None, "", ":memory:") else str(url.database)
    here = str(files.get("main") or "")
    return named == here or (bool(named and here) and Path(named).resolve() == Path(here).resolve())


IS_SAME = {"postgresql": _sees_lock, "sqlite": _is_file}


@contextmanager
def reachable(url: URL) -> Iterator[None]:
    """Translate a failed or lost connection into one sentence without a password."""
    try:
        yield
    except OperationalError as error:
        raise Unreachable(_cannot_reach(url, error)) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unreachable(_cannot_reach(url, error)) from error
        if refuses_writes(error):
            raise Unreachable(f"{shown(url)} {TAKES_NO_WRITES} ({_reason(url, error)})") from error
        advice = LACKS_A_RIGHT if sqlstate(error) == "42501" else ""
        raise Unreachable(f"{_reason(url, error)} ({shown(url)}){advice}") from error
    except PendingRollbackError as error:  # a lost connection was used again
        first = cause_of(error)
        raise Unreachable(_cannot_reach(url, first) if first else f"{error} ({shown(url)})") from error


def run_own(connection: Connection, sql: str, **parameters: object) -> Sequence[Any]:
    """Run a query of ours on catalogues or the ledger, where no object of the project can answer it."""
    with engine_of(connection).own_path(connection):
        if parameters:
            return connection.execute(sa.text(sql), parameters).all()
        return run_as_written(connection, sql).all()


def send(connection: Connection, *statements: str) -> None:
    """Run statements without results, in one round trip if the driver supports it, as psycopg2 does."""
    together = connection.dialect.driver == "psycopg2"
    for statement in ("; ".join(statements),) if together else statements:
        run_as_written(connection, statement)


def _cannot_reach(url: URL, error: DBAPIError) -> str:
    reason = _reason(url, error)
    if CONFLICT in reason:
        return (
            f"{shown(url)} is a standby, and cancelled a query to replay changes of the same rows: run the command "
            f"again, or on the primary; max_standby_streaming_delay sets how long the standby waits ({CONFLICT})"
        )
    return f"cannot reach {shown(url)}: {reason}; check that the server runs and the URL is right"


def _reason(url: URL, error: DBAPIError) -> str:
    """Return the driver's message on one line, without the question that libpq appends."""
    said = " ".join(message(error).split()).partition(" Is the server running ")[0]
    return without_secrets(said, url)
