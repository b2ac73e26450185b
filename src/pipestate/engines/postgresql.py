"""PostgreSQL: how a connection begins, and the world in which checks look."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from pipestate.engines.world import world_settings
from pipestate.interrupt import listen

IS_FILE = False
HAS_ROLES = True
HAS_SETTINGS = True

CONNECT_TIMEOUT_S = 10
CONNECT_ARGUMENTS = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pipestate"}

# For one transaction, not for the session and not at its start: PgBouncer refuses a connection that
# brings such options, and hands the next transaction to another session.
# `row_security = off`: a check fails where a policy would hide rows from it, instead of passing.
# One statement a call: not every driver takes several.
SETTINGS = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL row_security = off",
)

SEARCH = sa.text("SELECT pg_catalog.set_config('search_path', :path, true)")


def create_engine(url: sa.URL, *, readonly: bool) -> sa.Engine:
    """Make an engine without a pool; whoever only reads gets the same one."""
    del readonly
    listen()
    # SQLAlchemy would ask each new connection for the type hstore, which then is a text instead.
    return sa.create_engine(
        url, poolclass=sa.NullPool, connect_args=CONNECT_ARGUMENTS, use_native_hstore=False
    )


def begin_reading(connection: sa.Connection, *, snapshot: str | None, path: Sequence[str]) -> sa.Connection:
    """Begin a transaction that reads one snapshot, that of another reader where it is given, and cannot write."""
    reading = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    if snapshot is not None:
        reading.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    if path:
        reading.execute(SEARCH, {"path": _quoted(reading, path)})
    _set_world(reading)  # from this query on the transaction cannot be made to write
    return reading


def begin_writing(connection: sa.Connection) -> None:
    """Make this transaction independent of what the role or the database has set."""
    for setting in SETTINGS:
        connection.exec_driver_sql(setting)


@contextmanager
def look(connection: sa.Connection) -> Iterator[None]:
    """Read in a world of one's own, inside the transaction that is there; its locks stay, nothing else does."""
    connection.exec_driver_sql("SAVEPOINT pipestate_look")
    _set_world(connection)
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT pipestate_look")
            connection.exec_driver_sql("RELEASE SAVEPOINT pipestate_look")


def server_version(connection: sa.Connection) -> str:
    """Read the server's version; psycopg2 was told of it when it connected."""
    if connection.dialect.driver == "psycopg2":
        driver: Any = connection.connection.driver_connection
        return str(driver.get_parameter_status("server_version"))
    return str(connection.exec_driver_sql("SHOW server_version").scalar_one())


def database_name(url: sa.URL) -> str | None:
    """Return what people call the database; without a name of its own it is called as its user."""
    return url.database or url.username


def address(url: sa.URL) -> tuple[object, ...]:
    """Return what tells two databases apart, however their URLs are spelt; users and options do not."""
    host = url.host or url.query.get("host") or ""
    port = url.port or url.query.get("port") or 5432
    return ("postgresql", str(host).lower(), str(port), database_name(url))


def _set_world(connection: sa.Connection) -> None:
    """Set the world of a look until the end of the transaction or savepoint, in one round trip."""
    connection.exec_driver_sql(
        f"SELECT {', '.join(world_settings())}", execution_options={"no_parameters": True}
    )


def _quoted(connection: sa.Connection, names: Sequence[str]) -> str:
    return ", ".join(connection.dialect.identifier_preparer.quote_identifier(name) for name in names)
