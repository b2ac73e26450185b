"""Archived columns on SQLite: copied, dropped and brought back in one transaction."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from pipestate.ddl import sql
from pipestate.ddl.sqlite import look
from pipestate.ddl.sqlite.archive import (
    MANIFEST,
    PREFIX,
    definition,
    record,
    refuse_offline,
    refuse_readers,
)
from pipestate.ddl.sqlite.columns import require_not_null
from pipestate.ddl.sqlite.rebuild import rebuilt


def archive_columns(table: str, key: str, columns: Sequence[str]) -> None:
    """Do nothing: the copy is made in the transaction that drops them."""


def refuse_late_writes(table: str, *, within: str, gate: str) -> None:
    """Do nothing: nobody else writes while a migration holds the file."""


def abandon_archived_columns(table: str) -> None:
    """Do nothing: a transaction that was given up has left nothing."""


def drop_archived_columns(table: str, columns: Sequence[str]) -> None:
    refuse_offline()
    there = [column for column in look.inspector().get_columns(table) if column["name"] in columns]
    if not there:
        return
    for column in there:
        refuse_readers(table, str(column["name"]))
    (key,) = look.inspector().get_pk_constraint(table)["constrained_columns"]
    names = ", ".join(sql.name(str(column["name"])) for column in there)
    indexes = look.indexes(table)
    definitions = [
        {
            "name": column["name"],
            "type": look.column_type(table, str(column["name"])),
            "default": column["default"],
            "not_null": not column["nullable"],
        }
        for column in there
    ]
    sql.emit(
        f"CREATE TABLE {sql.name(f'{PREFIX}{table}_columns')} AS "
        f"SELECT {sql.name(key)}, {names} FROM {sql.name(table)}"
    )
    with rebuilt(table, without=[str(column["name"]) for column in there]) as batch:
        for column in there:
            batch.drop_column(str(column["name"]))
    # Whatever names one of the columns went with them, also where only its expression or its WHERE did.
    hanging = [statement for name, statement in indexes.items() if name not in look.indexes(table)]
    record("columns", table, {"columns": definitions, "indexes": hanging})


def restore_columns(
    table: str, key: str, columns: Sequence[str], *, changed: str, derived: Mapping[str, str]
) -> None:
    refuse_offline()
    copy = f"{PREFIX}{table}_columns"
    if not look.has_table(copy):
        return
    archived = definition("columns", table)
    for column in archived["columns"]:
        sql.emit(f"ALTER TABLE {sql.name(table)} ADD COLUMN {sql.name(column['name'])} {column['type']}")
    assignments = ", ".join(
        f"{sql.name(column['name'])} = (SELECT CASE WHEN {changed} THEN {derived[column['name']]} "
        f"ELSE a.{sql.name(column['name'])} END FROM {sql.name(table)} s "
        f"LEFT JOIN {sql.name(copy)} a ON a.{sql.name(key)} = s.{sql.name(key)} "
        f"WHERE s.{sql.name(key)} = {sql.name(table)}.{sql.name(key)})"
        for column in archived["columns"]
    )
    sql.emit(f"UPDATE {sql.name(table)} SET {assignments}")
    # Afterwards, and by a rebuild: ADD COLUMN takes only constants.
    defaults = {c["name"]: c["default"] for c in archived["columns"] if c["default"] is not None}
    if defaults:
        with rebuilt(table) as batch:
            for name, default in defaults.items():
                batch.alter_column(name, server_default=sa.text(default.replace(":", "\\:")))
    for statement in archived["indexes"]:
        sql.emit(statement)
    required = {c["name"]: c["default"] or "''" for c in archived["columns"] if c["not_null"]}
    require_not_null(table, key, required)
    sql.emit(f"DROP TABLE {sql.name(copy)}")
    sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = 'columns' AND name = {sql.literal(table)}")


def empty_copy(table: str, key: str) -> None:
    """In place of a copy that was purged: nothing archived, everything derived."""
    if sql.is_offline():
        return
    archived = definition("columns", table) if look.has_table(MANIFEST) else {}
    copy = f"{PREFIX}{table}_columns"
    if archived.get("columns") and not look.has_table(copy):
        names = ", ".join(sql.name(name) for name in (key, *(c["name"] for c in archived["columns"])))
        sql.emit(f"CREATE TABLE {sql.name(copy)} ({names})")
