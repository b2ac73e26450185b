"""The archive on SQLite: a renamed table, a copy of the columns, a manifest beside them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from pipestate.ddl import objects, sql, sqlite
from pipestate.ddl.failure import MigrationError

PREFIX = "pipestate_archive_"
MANIFEST = f"{PREFIX}manifest"


def archive_table(table: str) -> None:
    refuse_offline()
    if not sqlite.has_table(table):
        return
    _refuse_readers(table, table)
    if sqlite.has_table(PREFIX + table):
        raise MigrationError(
            f"{PREFIX}{table} exists already, from an earlier archive: look at it, drop it, then run the same again"
        )
    _record("table", table, {"ours": objects.is_ours_on_sqlite("table", table)})
    sql.emit(f"ALTER TABLE {sql.name(table)} RENAME TO {sql.name(PREFIX + table)}")


def bring_back_table(table: str) -> None:
    if (
        sql.is_offline()
        or not sqlite.has_table(PREFIX + table)
        or sqlite.has_table(table)
        or not sqlite.has_table(MANIFEST)
    ):
        return
    definition = _definition("table", table)
    sql.emit(f"ALTER TABLE {sql.name(PREFIX + table)} RENAME TO {sql.name(table)}")
    sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = 'table' AND name = {sql.literal(table)}")
    if definition["ours"]:
        sql.emit(objects.remember("table", table))


def archive_columns(table: str, columns: Sequence[str]) -> None:
    refuse_offline()
    there = [column for column in sqlite.inspector().get_columns(table) if column["name"] in columns]
    if not there:
        return
    for column in there:
        _refuse_readers(table, str(column["name"]))
    (key,) = sqlite.inspector().get_pk_constraint(table)["constrained_columns"]
    names = ", ".join(sql.name(str(column["name"])) for column in there)
    indexes = sqlite.indexes(table)
    definitions = [
        {
            "name": column["name"],
            "type": sqlite.column_type(table, str(column["name"])),
            "default": column["default"],
            "not_null": not column["nullable"],
        }
        for column in there
    ]
    sql.emit(
        f"CREATE TABLE {sql.name(f'{PREFIX}{table}_columns')} AS "
        f"SELECT {sql.name(key)}, {names} FROM {sql.name(table)}"
    )
    with sqlite.rebuilt(table, without=[str(column["name"]) for column in there]) as batch:
        for column in there:
            batch.drop_column(str(column["name"]))
    # Whatever names one of the columns went with them, also where only its expression or its WHERE did.
    hanging = [statement for name, statement in indexes.items() if name not in sqlite.indexes(table)]
    _record("columns", table, {"columns": definitions, "indexes": hanging})


def restore_columns(table: str, key: str, *, changed: str, derived: Mapping[str, str]) -> None:
    refuse_offline()
    copy = f"{PREFIX}{table}_columns"
    if not sqlite.has_table(copy):
        return
    definition = _definition("columns", table)
    for column in definition["columns"]:
        sql.emit(f"ALTER TABLE {sql.name(table)} ADD COLUMN {sql.name(column['name'])} {column['type']}")
    assignments = ", ".join(
        f"{sql.name(column['name'])} = (SELECT CASE WHEN {changed} THEN {derived[column['name']]} "
        f"ELSE a.{sql.name(column['name'])} END FROM {sql.name(table)} s "
        f"LEFT JOIN {sql.name(copy)} a ON a.{sql.name(key)} = s.{sql.name(key)} "
        f"WHERE s.{sql.name(key)} = {sql.name(table)}.{sql.name(key)})"
        for column in definition["columns"]
    )
    sql.emit(f"UPDATE {sql.name(table)} SET {assignments}")
    # Afterwards, and by a rebuild: ADD COLUMN takes only constants.
    defaults = {c["name"]: c["default"] for c in definition["columns"] if c["default"] is not None}
    if defaults:
        with sqlite.rebuilt(table) as batch:
            for name, default in defaults.items():
                batch.alter_column(name, server_default=sa.text(default.replace(":", "\\:")))
    for statement in definition["indexes"]:
        sql.emit(statement)
    required = {c["name"]: c["default"] or "''" for c in definition["columns"] if c["not_null"]}
    sqlite.require_not_null(table, required)
    sql.emit(f"DROP TABLE {sql.name(copy)}")
    sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = 'columns' AND name = {sql.literal(table)}")


def empty_copy(table: str, key: str) -> None:
    """In place of a copy that was purged: nothing archived, everything derived."""
    definition = _definition("columns", table) if has_manifest() else {}
    copy = f"{PREFIX}{table}_columns"
    if definition.get("columns") and not sqlite.has_table(copy):
        names = ", ".join(sql.name(name) for name in (key, *(c["name"] for c in definition["columns"])))
        sql.emit(f"CREATE TABLE {sql.name(copy)} ({names})")


def has_manifest() -> bool:
    return sqlite.has_table(MANIFEST)


def is_archived(table: str) -> bool:
    return sqlite.has_table(PREFIX + table)


def needs_more(table: str, columns: Sequence[str]) -> bool:
    """Has it other columns that must be given a value?"""
    rows = op.get_bind().exec_driver_sql(
        'SELECT name FROM pragma_table_info(?) WHERE "notnull" AND dflt_value IS NULL', (table,)
    )
    return any(row.name not in columns for row in rows)


def is_known(kind: str, name: str) -> bool:
    """Is it in the archive, or noted as absent?"""
    definition = _definition(kind, name) if sqlite.has_table(MANIFEST) else {}
    aside = PREFIX + name if kind == "table" else f"{PREFIX}{name}_columns"
    return "absent" in definition or (bool(definition) and sqlite.has_table(aside))


def note_absence(kind: str, name: str) -> None:
    if not sqlite.has_table(MANIFEST) or not is_known(kind, name):
        _record(kind, name, {"absent": True})


def drop_manifest_if_empty() -> None:
    if sql.is_offline() or not sqlite.has_table(MANIFEST):
        return
    if not sqlite.has_rows(MANIFEST):
        sql.emit(f"DROP TABLE {MANIFEST}")


def refuse_offline() -> None:
    if sql.is_offline():
        raise MigrationError(
            "this revision looks at the rows before it drops anything, which a script for SQLite cannot: "
            "run it without --sql"
        )


def _definition(kind: str, name: str) -> dict[str, Any]:
    query = f"SELECT definition FROM {MANIFEST} WHERE kind = ? AND name = ?"
    found: dict[str, Any] = json.loads(op.get_bind().exec_driver_sql(query, (kind, name)).scalar() or "{}")
    return found


def _record(kind: str, name: str, definition: Mapping[str, Any]) -> None:
    sql.emit(
        f"CREATE TABLE IF NOT EXISTS {MANIFEST} (kind VARCHAR(20) NOT NULL, name VARCHAR(200) NOT NULL, "
        "archived_at TIMESTAMP DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL, definition JSON NOT NULL, "
        f"CONSTRAINT pk_{MANIFEST} PRIMARY KEY (kind, name))"
    )
    values = sql.literals((kind, name, json.dumps(definition)))
    sql.emit(f"INSERT OR REPLACE INTO {MANIFEST} (kind, name, definition) VALUES ({values})")


def _refuse_readers(table: str, word: str) -> None:
    """Views and triggers whose text names it, and foreign keys of other tables."""
    rows = op.get_bind().exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE type = 'view' OR (type = 'trigger' AND (tbl_name <> ? OR ? <> ?))",
        (table, word, table),
    )
    named = rf"\b{re.escape(word)}\b"
    found = [
        f"{row.type} {row.name}"
        for row in rows
        if re.search(named, row.sql) and re.search(rf"\b{re.escape(table)}\b", row.sql)
    ]
    if word == table:
        found += [
            f"foreign key of {other}"
            for other in sqlite.inspector().get_table_names()
            if not other.startswith(PREFIX)
            for key in sqlite.inspector().get_foreign_keys(other)
            if key["referred_table"] == table and other != table
        ]
    if found:
        raise MigrationError(
            f"{word} cannot go while others depend on it: {', '.join(found)}. "
            "Drop or change them, then run the same again"
        )
