"""State of a database's ledger: installed, up to date, owned by a trusted role, written in this database.

Views and triggers of an untrusted ledger would run its owner's functions with the reader's rights. On
PostgreSQL each record has the name that `pipestate.this_database()` gives. The views exclude records of other
databases; `pipestate ledger adopt` changes them into records of this one. A SQLite file has no identity, so
all its records count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, func, null, select, update

from pipestate.core.errors import OWN_SQLSTATE, ConfigError
from pipestate.core.text import many, plain
from pipestate.database.connections import choose, engine_of
from pipestate.database.drivers import run_as_written
from pipestate.ledger.tables import SCHEMA, VIEWS, ledger_on, qualified, query
from pipestate.project.graph import FOUND
from pipestate.verify.read import HOW_TO_INSTALL, NO_LEDGER
from pipestate.verify.session_safety import MESSAGE, foreign_owner_query

HERE: dict[str, ColumnElement[Any]] = {"postgresql": func.pipestate.this_database(), "sqlite": null()}
KINDS = {"attestation": "sign-off", "run": "record", "rehearsal": "rehearsal"}
NOT_SHOWN = "until then nothing of the ledger is shown"


@dataclass(frozen=True, slots=True)
class LedgerState:
    """Ledger state: `installed`, and the missing parts of an older ledger, as `table.column` or a view."""

    installed: bool
    missing: tuple[str, ...]


def read_ledger_state(connection: Connection) -> LedgerState:
    """Compare this database's ledger with the definition; reads only the catalogue."""
    dialect = connection.dialect.name
    rows = run_as_written(connection, query("ledger_columns", dialect))
    found = {str(relation): set(str(columns).split(",")) for relation, columns in rows}
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
    """Check for a ledger to write to; raise an error if it is outdated."""
    state = seen or read_ledger_state(connection)
    if state.missing:
        raise ConfigError(older(state))
    return state.installed


def is_readable(connection: Connection) -> bool:
    """Tell whether there is a ledger, up to date and owned by a trusted role."""
    state = read_ledger_state(connection)
    return state.installed and not state.missing and find_foreign_owner(connection) is None


def require_ledger(connection: Connection, seen: LedgerState | None = None) -> None:
    """Refuse a missing or outdated ledger, or one owned by another role.

    Call this before each read or write of the ledger. `seen` is a state that was just read.
    """
    if not has_ledger(connection, seen):
        raise ConfigError(NO_LEDGER)
    require_trusted(connection)


def older(state: LedgerState) -> str:
    """Describe the missing parts of an older ledger, and the command that updates it."""
    more = f" and {len(state.missing) - 1} more" if len(state.missing) > 1 else ""
    return (
        f"the ledger of this database is older than this pipestate: it lacks {state.missing[0]}{more}; "
        f"to bring it up to date, {HOW_TO_INSTALL}"
    )


def this_database(connection: Connection) -> ColumnElement[Any]:
    """Return the SQL expression for the database in which a record is written."""
    return choose(HERE, connection)


def foreign_warning(connection: Connection) -> tuple[str, ...]:
    """Name the databases with ignored records and the command to adopt them.

    The query reads the oldest row of each table.
    """
    others: list[str] = []
    for name in KINDS:
        table = _table(connection, name)
        oldest = select(table.c.database).order_by(table.c.id).limit(1).subquery()
        others += connection.execute(
            select(oldest.c.database).where(oldest.c.database != _here(connection))
        ).scalars()
    names = ", ".join(dict.fromkeys(_name(each) for each in others))
    if not names:
        return ()
    return (f"records of the database {names} do not count here; to adopt them: pipestate ledger adopt",)


def make_own(connection: Connection) -> str | None:
    """Change the records of other databases into records of this one; describe them, else return None."""
    counts, others = [], dict[str, None]()
    for name, kind in KINDS.items():
        table, here = _table(connection, name), _here(connection)
        foreign = table.c.database != here
        names = connection.execute(
            select(table.c.database).where(foreign).distinct().order_by(table.c.database)
        )
        others |= dict.fromkeys(map(_name, names.scalars()))
        rows = connection.execute(update(table).where(foreign).values(database=here)).rowcount
        counts += [many(rows, kind)] if rows else []
    return f"{', '.join(counts)} of the database {', '.join(others)}" if counts else None


def _table(connection: Connection, name: str) -> Table:
    found: Table = getattr(ledger_on(connection.dialect.name), name)
    return found


def _here(connection: Connection) -> ColumnElement[Any]:
    """Return `this_database` as a subquery, which the server evaluates once."""
    return select(this_database(connection)).scalar_subquery()


def _name(database: str) -> str:
    """Return the display name of a database.

    >>> _name("7432/16384/shop")
    'shop'
    """
    return plain(database.split("/", 2)[-1])


def refuse_foreign_owner(*, to_change: bool = False) -> str:
    """Render PL/pgSQL that stops at a foreign owner; the block must declare `other_owner record`.

    It avoids FOUND, because an enclosing block may have a variable of that name.
    """
    return f"""  {foreign_owner_query(to_change=to_change).replace("AS me", "AS me INTO other_owner", 1)};
  IF other_owner.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = pg_catalog.format(
      '{MESSAGE}', other_owner.what, other_owner.owner, other_owner.me);
  END IF;"""


def require_trusted(connection: Connection) -> None:
    """Refuse a ledger owned by an untrusted role."""
    if found := find_foreign_owner(connection):
        raise ConfigError(found)


def require_shown(connection: Connection, find_version_table: Callable[[], object]) -> None:
    """Refuse to show a ledger owned by an untrusted role.

    The owner of the version table is trusted, so that table is searched for only if the first test fails.
    """
    if find_foreign_owner(connection) is None:
        return
    find_version_table()
    if found := find_foreign_owner(connection):
        raise ConfigError(f"{found}; {NOT_SHOWN}")


def find_foreign_owner(connection: Connection) -> str | None:
    """Name the untrusted owner of a ledger object, and the next step; None if all owners are trusted.

    The owner of the version table is also trusted, if this connection or its transaction knows that table.
    """
    if engine_of(connection).IS_FILE:
        return None
    found = run_as_written(connection, foreign_owner_query(version_table=connection.info.get(FOUND))).first()
    return None if found is None else MESSAGE % (found.what, found.owner, found.me)
