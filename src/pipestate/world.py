"""The world of a look: what a check sees and may do, wherever it runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from pipestate.drivers import on_sqlite
from pipestate.errors import ConfigError

# What a check sees, whatever the role, the database, a psqlrc or
# somebody's env.py has set. Set for a transaction or a savepoint.
WORLD = {
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
    # A row that a validated CHECK or NOT NULL rules out need not be looked for.
    "constraint_exclusion": "on",
    # What the planner takes for expensive is compiled first, which takes longer than a check that finds nothing.
    "jit": "off",
}

# The server's own functions come first on the path, whatever it is, and temporary tables last, which otherwise come
# before everything: a table may be anywhere on it, but neither somebody's `now()` nor a table of this session stands
# in for what is there.
CATALOGUE_FIRST = (
    "pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' "
    "ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) "
    "WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp')"
)

# What a read on SQLite may do. Pragmas only as table-valued functions, which look like this as well.
SQLITE_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
SQLITE_PRAGMAS = frozenset(
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
SQLITE_EFFECTS = frozenset({"load_extension", "writefile", "edit", "fts3_tokenizer", "readfile"})


@contextmanager
def look(connection: Connection) -> Iterator[None]:
    """Read in a world of one's own, inside the transaction that is there; its locks stay, nothing else does."""
    if connection.dialect.name == "sqlite":
        _refuse_hidden(connection)
        with read_only(connection):
            yield
        return
    connection.exec_driver_sql("SAVEPOINT pipestate_look")
    set_world(connection)
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT pipestate_look")
            connection.exec_driver_sql("RELEASE SAVEPOINT pipestate_look")


def _refuse_hidden(connection: Connection) -> None:
    """Refuse where a temporary table of this connection stands in for one of the file: SQLite finds it first."""
    rows = connection.exec_driver_sql(
        "SELECT own.name FROM sqlite_temp_master AS own JOIN sqlite_master AS kept ON lower(kept.name) = lower(own.name) "
        "WHERE own.type IN ('table', 'view') AND kept.type IN ('table', 'view')"
    )
    if hidden := ", ".join(str(name) for (name,) in rows):
        raise ConfigError(f"{hidden} is hidden by a temporary table of this connection: drop that one first")


def set_world(connection: Connection) -> None:
    """Set the world of a look until the end of the transaction or savepoint, in one round trip."""
    connection.exec_driver_sql(
        f"SELECT {', '.join(world_settings())}", execution_options={"no_parameters": True}
    )


def world_settings() -> list[str]:
    """Write the calls that set the world, as SQL expressions."""
    values = {name: f"'{value}'" for name, value in WORLD.items()} | {"search_path": CATALOGUE_FIRST}
    return [f"pg_catalog.set_config('{name}', {value}, true)" for name, value in values.items()]


@contextmanager
def read_only(connection: Connection) -> Iterator[None]:
    """SQLite: nothing can be written through this connection for a while; its transaction stays."""
    on_sqlite(connection, _refuse_writes)
    try:
        yield
    finally:
        on_sqlite(connection, _allow_writes)


def _refuse_writes(driver: sqlite3.Connection) -> None:
    driver.execute("PRAGMA query_only = ON")
    driver.set_authorizer(authorize)


def _allow_writes(driver: sqlite3.Connection) -> None:
    driver.set_authorizer(None)
    driver.set_progress_handler(None, 0)
    driver.execute("PRAGMA query_only = OFF")


def authorize(action: int, first: str | None, second: str | None, _db: str | None, _via: str | None) -> int:
    """Answer SQLite's question whether a statement may do this: nothing but read."""
    if action in SQLITE_READS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() in SQLITE_EFFECTS else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if (first or "").lower() in SQLITE_PRAGMAS else sqlite3.SQLITE_DENY
    # Table-valued pragmas declare their table, which SQLite asks about as an update of its catalogue.
    is_catalogue = first in ("sqlite_master", "sqlite_schema", "sqlite_temp_master")
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_UPDATE and is_catalogue else sqlite3.SQLITE_DENY
