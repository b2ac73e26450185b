"""The tables that a gate protects: whether they are there, and whether they hold anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, inspect

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError, told_plainly
from pipestate.engines.engine import engine_of

ABSENT = (
    "revision {revision} locks {table}, which does not exist: correct the name in that revision, "
    "or write may_be_gone=True where that is right"
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that the change needs, and whether they may be gone already."""

    names: tuple[str, ...]
    may_be_gone: bool


def refuse_absent(connection: Connection, tables: Sequence[str], revision: str) -> None:
    """Refuse a misspelt name: it would look like a table without rows, and open the gate."""
    there = _existing(connection, tables)
    for table in tables:
        if table not in there:
            raise MigrationError(ABSENT.format(revision=revision, table=table))


def hold_rows(connection: Connection, tables: Sequence[str]) -> bool:
    """Say whether one of the tables has a row; that is a look, too, or a policy would hide them."""
    there = _existing(connection, tables)
    with told_plainly(connection.engine.url), engine_of(connection).look(connection):
        return any(
            connection.exec_driver_sql(
                f"SELECT EXISTS (SELECT 1 FROM {sql.name(table)})", execution_options={"no_parameters": True}
            ).scalar()
            for table in there
        )


def _existing(connection: Connection, tables: Sequence[str]) -> list[str]:
    """List those that exist, `schema.table` included."""
    known = inspect(connection)
    parts = [(table, *table.rpartition(".")) for table in tables]
    return [table for table, schema, _, name in parts if known.has_table(name, schema=schema or None)]
