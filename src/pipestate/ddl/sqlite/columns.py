"""Columns on SQLite: added as they are, or by a rebuild where ADD COLUMN cannot."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from pipestate.ddl import objects, sql
from pipestate.ddl.sqlite import look
from pipestate.ddl.sqlite.rebuild import rebuilt, refuse_rows


def add_columns(addition: sa.Table) -> None:
    """Add columns by plain ADD COLUMN; a default that is no constant needs the table rebuilt."""
    known = look.column_names(addition.name)
    for column in addition.columns:
        if column.name in known:
            continue
        if _default(column) == "CURRENT_TIMESTAMP":
            with rebuilt(addition.name) as batch:
                batch.add_column(
                    sa.Column(
                        column.name,
                        column.type,
                        server_default=sa.text("CURRENT_TIMESTAMP"),
                        nullable=column.nullable,
                    )
                )
        else:
            definition = CreateColumn(column).compile(dialect=sql.SQLITE)
            sql.emit(f"ALTER TABLE {sql.name(addition.name)} ADD COLUMN {definition}")
        sql.emit(objects.remember("column", f"{addition.name}.{column.name}"))
    adopted = [column for column in addition.columns if column.name in known]
    if adopted:
        _fix_defaults(addition.name, adopted)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    ours = [column for column in columns if look.is_ours("column", f"{table}.{column}")]
    there = [column for column in ours if column in look.column_names(table)]
    if there:
        with rebuilt(table, without=there) as batch:
            for column in there:
                batch.drop_column(column)
    for column in ours:
        sql.emit(objects.forget("column", f"{table}.{column}"))


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    nullable = [
        c["name"] for c in look.inspector().get_columns(table) if c["name"] in repairs and c["nullable"]
    ]
    if not nullable:
        return
    hopeless = " OR ".join(f"{sql.name(column)} IS NULL" for column in nullable if repairs[column] == column)
    if hopeless:
        refuse_rows(table, hopeless, f"have no value ({hopeless})")
    for column in nullable:
        sql.emit(
            f"UPDATE {sql.name(table)} SET {sql.name(column)} = {repairs[column]} "
            f"WHERE {sql.name(column)} IS NULL"
        )
    with rebuilt(table) as batch:
        for column in nullable:
            batch.alter_column(column, nullable=False)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Do nothing: SQLite has no types for times."""


def set_default(table: str, column: str, expression: str) -> None:
    """Do nothing: a default that is no constant needs a rebuild, and writers here are few."""


def comment_column(table: str, column: str, comment: str) -> None:
    """Do nothing: SQLite has no comments."""


def _fix_defaults(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    """Fix adopted booleans that hold the text 'FALSE', and columns without their default."""
    for column in columns:
        if isinstance(column.type, sa.Boolean):
            name = sql.name(column.name)
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 0 WHERE upper({name}) IN ('FALSE', 'F')")
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 1 WHERE upper({name}) IN ('TRUE', 'T')")
    actual = {column["name"]: column["default"] for column in look.inspector().get_columns(table)}
    wrong = [column for column in columns if _default(column) != _unquoted(actual[column.name])]
    if wrong:
        with rebuilt(table) as batch:
            for column in wrong:
                batch.alter_column(
                    column.name, type_=column.type, server_default=sa.text(str(_default(column)))
                )


def _default(column: sa.Column[Any]) -> str | None:
    definition = str(CreateColumn(column).compile(dialect=sql.SQLITE))
    found = re.search(r" DEFAULT (.+?)( NOT NULL)?$", definition)
    return _unquoted(found[1]) if found else None


def _unquoted(default: str | None) -> str | None:
    return default.strip("()'\"") if default is not None else None
