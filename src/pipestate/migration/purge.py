"""The permanent drop of soft-dropped objects, on request."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import OWN_SQLSTATE, ConfigError
from pipestate.database.connections import choose
from pipestate.database.drivers import message, sqlstate
from pipestate.ledger.functions import remove_block, require_functions
from pipestate.ledger.record import record_event
from pipestate.ledger.soft_drops import SoftDropped, find_orphans, find_soft_drops, with_above
from pipestate.ledger.state import has_ledger, read_ledger_state, require_trusted
from pipestate.ledger.tables import VIEWS, ledger_on, qualified
from pipestate.migration.failure import first_sentence
from pipestate.migration.postgresql.ledger import DROP_EMPTY_SCHEMA
from pipestate.migration.postgresql.session import LOCK_KEY
from pipestate.migration.sqlite.dropped_tables import MANIFEST
from pipestate.project.graph import Position

LOCK_TIMEOUT = "2s"


def find(connection: Connection, older_than: timedelta = timedelta()) -> list[SoftDropped]:
    """Find soft-dropped objects that are old enough, oldest first.

    Refuse a ledger that another role created.
    """
    require_trusted(connection)
    border = datetime.now(UTC) - older_than
    return [each for each in find_soft_drops(connection) if each.dropped_at <= border]


def drop(connection: Connection, things: list[SoftDropped], *, revision: str | None) -> bool:
    """Drop them permanently, and record it in the ledger; return whether there is a ledger."""
    keeps = has_ledger(connection)
    _require_alone(connection)
    for thing in things:
        choose(PURGES, connection)(connection, thing)
        if keeps:
            record_event(connection, "purge", revision=revision, reason=thing.described)
    return keeps


def _purge_on_postgresql(connection: Connection, thing: SoftDropped) -> None:
    require_functions(connection)
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    try:
        connection.exec_driver_sql(f"CALL pipestate.purge({int(thing.id)})")
    except DBAPIError as error:
        if sqlstate(error) != OWN_SQLSTATE:
            raise
        raise ConfigError(first_sentence(message(error))) from None


def _purge_on_sqlite(connection: Connection, thing: SoftDropped) -> None:
    connection.exec_driver_sql(f"DROP TABLE {thing.id}")
    if thing.also is not None:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {thing.also}")


def _takes_migration_lock(connection: Connection) -> bool:
    key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    return bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), key))


PURGES = {"postgresql": _purge_on_postgresql, "sqlite": _purge_on_sqlite}
# A file has one writer.
MAY_GO_ON: dict[str, Callable[[Connection], bool]] = {
    "postgresql": _takes_migration_lock,
    "sqlite": lambda connection: True,
}


# Removal of the ledger: its knowledge of dropped columns, and its final drop.


_COLUMNS = {
    "postgresql": (
        "soft_drop",
        "SELECT revision, name, columns::text FROM pipestate.soft_drop WHERE columns IS NOT NULL ORDER BY id",
    ),
    "sqlite": (MANIFEST, f"SELECT revision, name, definition FROM {MANIFEST} ORDER BY archived_at"),
}


def require_nothing_hidden(
    connection: Connection, position: Position, write: Callable[[str], str], purge: str
) -> None:
    """Refuse while soft-dropped objects exist: only the ledger can restore them."""
    require_trusted(connection)
    if not read_ledger_state(connection).installed:
        return
    if found := find_soft_drops(connection):
        names = ", ".join(f"{each.described} ({each.revision})" for each in found)
        restore = with_above(found[0], position).restore(write)
        raise ConfigError(
            f"soft-dropped and not purged: {names}. Purge it ({purge}) or restore it ({restore}); nothing was changed"
        )
    if left := choose(_UNFINISHED, connection)(connection):
        raise ConfigError(f"the restore of {left} has not ended: downgrade once more; nothing was changed")
    if orphans := find_orphans(connection):
        raise ConfigError(
            f"{orphans} has hidden columns that the ledger does not know: restore the ledger's records, or drop "
            "these columns; nothing was changed"
        )


def known_columns(connection: Connection) -> dict[tuple[str, str], dict[str, str]]:
    """Read the types of dropped columns, by revision and table."""
    table, query = choose(_COLUMNS, connection)
    schema = ledger_on(connection.dialect.name).metadata.schema
    if not inspect(connection).has_table(table, schema=schema):
        return {}
    found = {}
    for revision, name, written in connection.exec_driver_sql(query).all():
        value = json.loads(written)
        columns = value.get("columns", ()) if isinstance(value, dict) else value
        found[str(revision), str(name)] = {each["name"]: each["type"] for each in columns}
    return found


def _require_alone(connection: Connection) -> None:
    if not choose(MAY_GO_ON, connection)(connection):
        raise ConfigError("a migration is running on this database: run the same again when it is done")


def drop_ledger(connection: Connection) -> None:
    """Drop all tables, views and functions of the ledger, with their rows; objects of others stay."""
    _require_alone(connection)
    if read_ledger_state(connection).installed and find_soft_drops(connection):
        raise ConfigError("a contract was applied in the meantime: run the same again")
    for statement in choose(_DROPS, connection)():
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def _drops_on_postgresql() -> list[str]:
    views, tables = _views("postgresql", VIEWS), _tables("postgresql")
    body = (
        f"{views};\n{remove_block()}\n{tables};\n{DROP_EMPTY_SCHEMA}"  # functions take rows of these tables
    )
    return [f"DO $eject$\nDECLARE\n  todo text;\nBEGIN\n{body}\nEND\n$eject$"]


def _drops_on_sqlite() -> list[str]:
    views = _views("sqlite", (*VIEWS, "schema_objects", "schema_method"))
    return [*views.split(";"), *_tables("sqlite").split(";"), f"DROP TABLE IF EXISTS {MANIFEST}"]


def _views(dialect: str, views: tuple[str, ...]) -> str:
    return ";\n".join(f"DROP VIEW IF EXISTS {qualified(view, dialect)}" for view in reversed(views))


def _tables(dialect: str) -> str:
    return ";\n".join(f"DROP TABLE IF EXISTS {table}" for table in reversed(ledger_on(dialect).tables))


def _unfinished_on_postgresql(connection: Connection) -> str | None:
    query = "SELECT string_agg(name, ', ') FROM pipestate.soft_drop WHERE state = 'validating'"
    return connection.exec_driver_sql(query).scalar()


# SQLite restores in one transaction.
_UNFINISHED: dict[str, Callable[[Connection], str | None]] = {
    "postgresql": _unfinished_on_postgresql,
    "sqlite": lambda connection: None,
}
_DROPS = {"postgresql": _drops_on_postgresql, "sqlite": _drops_on_sqlite}
