"""Parts of the ledger's definition as SQL: what both engines render in the same way."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Dialect, Table
from sqlalchemy.schema import CreateColumn

from pipestate.ledger.tables import SCHEMA, Ledger


def chosen_tables(ledger: Ledger, only: Sequence[str] | None) -> list[Table]:
    """List the tables of the ledger that are named in `only`, or all."""
    return [table for table in ledger.tables if only is None or table.name.removeprefix(f"{SCHEMA}_") in only]


def view_statements(dialect: str) -> list[str]:
    """Read the definitions of the views, each with its semicolon, comments left out."""
    text = Path(__file__).with_name(f"views.{dialect}.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    return [f"{statement.strip()};" for statement in "\n".join(lines).split(";") if statement.strip()]


def added_column(column: "Column[object]", dialect: Dialect) -> str:
    """Render a column as it can be added to a table that has rows: without a value it may be NULL there."""
    definition = tidy(str(CreateColumn(column).compile(dialect=dialect)))
    return definition.removesuffix(" NOT NULL") if column.server_default is None else definition


def tidy(statement: str) -> str:
    """Take out what SQLAlchemy leaves at the ends and beginnings of lines."""
    return "\n".join(line.rstrip().replace("\t", "  ") for line in statement.strip().splitlines())
