"""PostgreSQL: start of connections, and session settings for checks everywhere, also in scripts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from pipestate.database.drivers import run_as_written
from pipestate.database.interrupt import listen

# Session settings of a check, independent of role, database, psqlrc and env.py.
# Set for a transaction or a savepoint.
SESSION_SETTINGS = {
    "transaction_read_only": "on",
    "row_security": "off",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
    "lock_timeout": "10s",
    # A validated CHECK or NOT NULL excludes rows without a scan.
    "constraint_exclusion": "on",
    # Compilation of an expensive plan takes longer than a check that finds no rows.
    "jit": "off",
}

# The server's own functions come first on the search path, and temporary tables last; by default they come
# before everything. Tables may be anywhere on the path, but a user's `now()` or a temporary table cannot
# replace the real object.
CATALOGUE_FIRST = (
    "pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' "
    "ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) "
    "WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp')"
)
IS_FILE = False
CONNECT_TIMEOUT_S = 10
CONNECT_ARGUMENTS = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pipestate"}
# Set per transaction instead of per session or at its start: PgBouncer refuses a connection with such options,
# and assigns the next transaction to another session.
# `row_security = off`: a check fails if a policy would hide rows from it, instead of passing.
# One statement per call: some drivers accept only one.
SETTINGS = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL row_security = off",
)
SEARCH = sa.text("SELECT pg_catalog.set_config('search_path', :path, true)")


def session_settings() -> list[str]:
    """Write the calls that apply the session settings, as SQL expressions."""
    values = {name: f"'{value}'" for name, value in SESSION_SETTINGS.items()} | {
        "search_path": CATALOGUE_FIRST
    }
    return [f"pg_catalog.set_config('{name}', {value}, true)" for name, value in values.items()]


# Start of a connection, and the read-only session of checks.


def create_engine(url: sa.URL, *, readonly: bool) -> sa.Engine:
    """Return the engine of a URL; readers get the same engine."""
    del readonly
    listen()
    return _engine(url)


@lru_cache(maxsize=16)
def _engine(url: sa.URL) -> sa.Engine:
    """Create an engine without a pool, once per URL: a new one sends the server five queries first."""
    # SQLAlchemy would query the type hstore on each new connection; hstore values stay text instead.
    return sa.create_engine(
        url, poolclass=sa.NullPool, connect_args=CONNECT_ARGUMENTS, use_native_hstore=False
    )


def begin_reading(connection: sa.Connection, *, snapshot: str | None, path: Sequence[str]) -> sa.Connection:
    """Begin a read-only transaction on one snapshot, or on the exported snapshot of another reader."""
    reading = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    if snapshot is not None:
        reading.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    if path:
        reading.execute(SEARCH, {"path": _quoted(reading, path)})
    _set_session(reading)  # from this query on the transaction stays read-only
    return reading


def begin_writing(connection: sa.Connection) -> None:
    """Make this transaction independent of the settings of role and database."""
    for setting in SETTINGS:
        connection.exec_driver_sql(setting)


@contextmanager
def read_only_session(connection: sa.Connection) -> Iterator[None]:
    """Read with the session settings of checks, inside the current transaction; only its locks remain."""
    connection.exec_driver_sql("SAVEPOINT pipestate_session")
    _set_session(connection)
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT pipestate_session")
            connection.exec_driver_sql("RELEASE SAVEPOINT pipestate_session")


def server_version(connection: sa.Connection) -> str:
    """Read the server's version; psycopg2 knows it from the connection."""
    if connection.dialect.driver == "psycopg2":
        driver: Any = connection.connection.driver_connection
        return str(driver.get_parameter_status("server_version"))
    return str(connection.exec_driver_sql("SHOW server_version").scalar_one())


def database_name(url: sa.URL) -> str | None:
    """Return the name of the database; the default is the name of its user."""
    return url.database or url.username


def address(url: sa.URL) -> tuple[object, ...]:
    """Return the identity of a database: equal for all spellings, users and options of its URL."""
    host = url.host or url.query.get("host") or ""
    port = url.port or url.query.get("port") or 5432
    return ("postgresql", str(host).lower(), str(port), database_name(url))


def _set_session(connection: sa.Connection) -> None:
    """Apply the session settings until the end of the transaction or savepoint, in one round trip."""
    run_as_written(connection, f"SELECT {', '.join(session_settings())}")


def _quoted(connection: sa.Connection, names: Sequence[str]) -> str:
    return ", ".join(connection.dialect.identifier_preparer.quote_identifier(name) for name in names)
