"""Does this database have the ledger, and is it as new as this pipestate?"""

from dataclasses import dataclass

from sqlalchemy import Connection

from pipestate.errors import ConfigError
from pipestate.ledger.owners import require_trusted
from pipestate.ledger.tables import SCHEMA, VIEWS, ledger_on, qualified
from pipestate.verify.missing import HOW_TO_INSTALL, NO_LEDGER

_COLUMNS = {
    "postgresql": f"""SELECT c.relname::text, a.attname::text
        FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p', 'v')""",
    "sqlite": f"""SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
        WHERE m.type IN ('table', 'view') AND m.name LIKE '{SCHEMA}!_%' ESCAPE '!'""",
}


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What was found: `installed`, and what an older ledger lacks, as `table.column` or a view."""

    installed: bool
    missing: tuple[str, ...]


def look(connection: Connection) -> LedgerState:
    """Compare the ledger of this database with the definition, by the catalogue alone."""
    dialect = connection.dialect.name
    rows = connection.exec_driver_sql(_COLUMNS[dialect], execution_options={"no_parameters": True})
    found: dict[str, set[str]] = {}
    for relation, column in rows:
        found.setdefault(str(relation), set()).add(str(column))
    ledger = ledger_on(dialect)
    if ledger.run.name not in found:
        return LedgerState(False, ())
    missing = [
        f"{table.name}.{column.name}"
        for table in ledger.tables
        for column in table.columns
        if column.name not in found.get(table.name, ())
    ]
    views = [qualified(view, dialect).removeprefix(f"{SCHEMA}.") for view in VIEWS]
    return LedgerState(True, (*missing, *(view for view in views if view not in found)))


def has_ledger(connection: Connection, seen: LedgerState | None = None) -> bool:
    """Say whether there is a ledger to write to; one that is too old is an error, not an absence."""
    state = seen or look(connection)
    if state.missing:
        raise ConfigError(older(state))
    return state.installed


def require_ledger(connection: Connection, seen: LedgerState | None = None) -> None:
    """Refuse to go on without a ledger, with one that is older, or with a stranger's.

    Whoever reads or writes it asks this first. `seen` is what a look has just found.
    """
    if not has_ledger(connection, seen):
        raise ConfigError(NO_LEDGER)
    require_trusted(connection)


def older(state: LedgerState) -> str:
    """Say what an older ledger lacks, and how to bring it up to date."""
    more = f" and {len(state.missing) - 1} more" if len(state.missing) > 1 else ""
    return (
        f"the ledger of this database is older than this pipestate: it lacks {state.missing[0]}{more}; "
        f"to bring it up to date, {HOW_TO_INSTALL}"
    )
