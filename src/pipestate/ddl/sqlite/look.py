"""Looking at a SQLite database before acting: here a revision is one transaction, so nobody comes between."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

from pipestate.ddl import sql


def inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())


def has_table(table: str) -> bool:
    return inspector().has_table(table)


def has_rows(table: str) -> bool:
    return bool(scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.name(table)})"))


def scalar(query: str) -> Any:
    return op.get_bind().exec_driver_sql(query).scalar()


def column_names(table: str) -> list[str]:
    return [column["name"] for column in inspector().get_columns(table)]


def column_type(table: str, column: str) -> str:
    """The type as it was declared."""
    query = "SELECT type FROM pragma_table_info(?) WHERE name = ?"
    declared = op.get_bind().exec_driver_sql(query, (table, column)).scalar()
    return str(declared or "INTEGER")


def index_definition(index: str) -> str | None:
    query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
    return op.get_bind().exec_driver_sql(query, (index,)).scalar()


def folded(statement: str) -> str:
    """Without what does not matter: case, quotes, spaces, IF NOT EXISTS, parentheses round a predicate."""
    text = re.sub(r'["`\[\]]|if not exists ', "", statement.lower())
    text = re.sub(r"\s+", "", text)
    head, where, predicate = text.partition(")where")
    return f"{head}{where}{predicate.strip('()').replace('false', '0').replace('true', '1')}"


def indexes(table: str) -> dict[str, str]:
    """The table's indexes, as they were created."""
    return attached(table, "'index'")


def attached(table: str, kinds: str = "'index', 'trigger'") -> dict[str, str]:
    """The table's indexes and triggers, as they were created."""
    query = (
        f"SELECT name, sql FROM sqlite_master WHERE tbl_name = ? AND type IN ({kinds}) AND sql IS NOT NULL"
    )
    return {row.name: row.sql for row in op.get_bind().exec_driver_sql(query, (table,))}
