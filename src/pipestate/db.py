"""Connections: a reader that cannot write, whatever the SQL says, and a writer for the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import DBAPIError, OperationalError, PendingRollbackError

from pipestate.config import shown, without_secrets
from pipestate.drivers import TAKES_NO_WRITES, cause_of, message, refuses_writes
from pipestate.engines.engine import engine_of
from pipestate.engines.postgresql import CONNECT_ARGUMENTS
from pipestate.errors import Unreachable
from pipestate.interrupt import telling

CONFLICT = "conflict with recovery"  # the connection is gone, and with it the code: only the words are left

_MEANT: ContextVar[URL] = ContextVar("meant")  # what a shared engine connects to now


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
        yield engine_of(url).begin_reading(plain, snapshot=snapshot, path=path)


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
        engine_of(url).begin_writing(connection)
        yield connection


def engine_for(url: URL, *, readonly: bool = False) -> Engine:
    """An engine without a pool: a command connects, works and goes."""
    return engine_of(url).create_engine(url, readonly=readonly)


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
