"""Installing the ledger on SQLite: a list of statements, and a look at the columns that an older table lacks."""

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Dialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from pipestate.ledger.definition import added_column, chosen_tables, tidy, view_statements
from pipestate.ledger.tables import ledger_on

SQLITE: Dialect = sqlite.dialect()


def statements(only: Sequence[str] | None) -> list[str]:
    """Render the installation."""
    found = []
    for table in chosen_tables(ledger_on("sqlite"), only):
        found.append(tidy(str(CreateTable(table, if_not_exists=True).compile(dialect=SQLITE))))
        found += [
            str(CreateIndex(index, if_not_exists=True).compile(dialect=SQLITE)) for index in table.indexes
        ]
    if only is None:
        for view in view_statements("sqlite"):
            name = view.split()[2]
            found += [f"DROP VIEW IF EXISTS {name}", view.removesuffix(";")]
    return found


def additions(connection: Connection) -> list[str]:
    """List what an older ledger's tables lack."""
    found = []
    for table in ledger_on("sqlite").tables:
        rows = connection.exec_driver_sql("SELECT name FROM pragma_table_info(?)", (table.name,)).all()
        known = {str(row[0]) for row in rows}
        found += [
            f"ALTER TABLE {table.name} ADD COLUMN {_without_expression(column)}"
            for column in table.columns
            if known and column.name not in known
        ]
    return found


def _without_expression(column: "Column[object]") -> str:
    """Render a column that is added: SQLite takes only constants as its default."""
    return added_column(column, SQLITE).partition(" DEFAULT (")[0]
