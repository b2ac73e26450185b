"""Archived columns on SQLite: copied, dropped and brought back in one transaction."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from pipestate.ddl import sql
from pipestate.ddl.contract_parts import GoingColumns
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.force import force_reason
from pipestate.ddl.notice import warn
from pipestate.ddl.sqlite import look
from pipestate.ddl.sqlite.archive import (
    aside_of,
    definition,
    forget_archived,
    record,
    refuse_absent,
    refuse_readers,
)
from pipestate.ddl.sqlite.columns import require_not_null
from pipestate.ddl.sqlite.rebuild import dropped_in_place, rebuild_as, rebuilt, without_triggers


def archive_columns(going: GoingColumns) -> None:
    """Do nothing: the copy is made in the transaction that drops them."""


def describe_columns(going: GoingColumns) -> None:
    """Do nothing: what hangs on them is written down where they are dropped."""


def refuse_late_writes(going: GoingColumns, gate: str) -> None:
    """Do nothing: nobody else writes while a migration holds the file."""


def abandon_archived_columns(going: GoingColumns) -> None:
    """Do nothing: a transaction that was given up has left nothing."""


def refuse_unfit_columns(going: GoingColumns, *, must_exist: bool = False) -> None:
    there = set(look.column_names(going.table)) if look.has_table(going.table) else set()
    missing = [column for column in going.columns if column not in there]
    if missing and must_exist:
        refuse_absent(going.revision, ", ".join(f"{going.table}.{column}" for column in missing))
    if len(missing) == len(going.columns):
        return
    if computed := [name for name in look.computed(going.table) if name in going.columns]:
        raise MigrationError(
            f"{going.table} computes {', '.join(computed)} from other columns, which cannot be archived as values: "
            "drop that column, then run the same again"
        )
    key = look.key_of(going.table, going.key)
    if in_key := [column for column in going.columns if column in key]:
        raise MigrationError(
            f"{', '.join(in_key)} of {going.table} cannot be archived: rows are found again by it. Name another key, "
            f"keys={{'{going.table}': [...]}}"
        )
    _refuse_no_key(going.table, key)
    for column in going.columns:
        if column not in missing:
            refuse_readers(going.table, column)


def _refuse_no_key(table: str, key: Sequence[str]) -> None:
    """Refuse columns that do not tell rows apart: of a key that is NULL or there twice nobody knows whose a value was."""
    names = ", ".join(key)
    if not look.is_unique(table, key):
        raise MigrationError(
            f"{table} ({names}) is no key: it needs a unique index. Add that, or name another key, "
            f"keys={{'{table}': [...]}}"
        )
    empty = " OR ".join(f"{sql.name(name)} IS NULL" for name in key)
    if rows := look.scalar(f"SELECT count(*) FROM {sql.name(table)} WHERE {empty}"):
        raise MigrationError(
            f"{rows} rows of {table} have no {names}, by which they could be found again: fill it in, or name another "
            f"key, keys={{'{table}': [...]}}"
        )


def drop_archived_columns(going: GoingColumns) -> None:
    refuse_unfit_columns(going)
    table, copy = going.table, aside_of(going)
    there = [column for column in look.inspector().get_columns(table) if column["name"] in going.columns]
    if not there:
        return
    if look.has_table(copy):
        raise MigrationError(
            f"{copy} exists already, from an earlier archive: look at it, drop it, then run the same again"
        )
    names = [str(column["name"]) for column in there]
    kept = ", ".join(map(sql.name, (*look.key_of(table, going.key), *names)))
    if going.changed_at is not None:
        kept += f", {sql.name(going.changed_at)} AS pipestate_changed_at"
    sql.emit(f"CREATE TABLE {sql.name(copy)} AS SELECT {kept} FROM {sql.name(table)}")
    columns = [
        {
            "name": column["name"],
            "type": look.column_type(table, str(column["name"])),
            "default": column["default"],
            "not_null": not column["nullable"],
        }
        for column in there
    ]
    created, attached, indexes = look.created_as(table), look.attached(table), look.indexes(table)
    if not dropped_in_place(table, names):
        with rebuilt(table, without=names) as batch:
            for name in names:
                batch.drop_column(name)
    # Whatever names one of the columns went with them, also where only its expression or its WHERE did.
    hanging = [statement for name, statement in indexes.items() if name not in look.indexes(table)]
    record(
        going,
        {
            "held": look.has_rows(copy),
            "columns": columns,
            "indexes": hanging,
            "created": created,
            "attached": attached,
            "left": look.created_as(table),
        },
    )


def restore_columns(going: GoingColumns) -> None:
    archived = definition(going)
    if not look.has_table(aside_of(going)) or "columns" not in archived:
        return
    _refuse_other_table(going, [column["name"] for column in archived["columns"]])
    unchanged = look.created_as(going.table) == archived["left"]
    for column in archived["columns"]:
        sql.emit(
            f"ALTER TABLE {sql.name(going.table)} ADD COLUMN {sql.name(column['name'])} {column['type']}"
        )
    with without_triggers(going.table):
        _fill(going, archived["columns"])
    _prove_return(going, archived["columns"])
    empty = [c["name"] for c in archived["columns"] if c["not_null"] and _has_null(going.table, c["name"])]
    if unchanged and not empty:
        rebuild_as(going.table, archived["created"], archived["attached"])
    else:
        _put_back(going.table, archived, empty)
    sql.emit(f"DROP TABLE {sql.name(aside_of(going))}")
    forget_archived(going)


def _refuse_other_table(going: GoingColumns, columns: list[str]) -> None:
    """Refuse a table that has one of the columns again, that is gone, or that has none of the archived rows."""
    table, copy = going.table, aside_of(going)
    if not look.has_table(table):
        raise MigrationError(
            f"{table} does not exist under that name, so nothing takes {going.described} back, which stay in {copy}: "
            "rename it, then run the same again"
        )
    if again := [column for column in columns if column in look.column_names(table)]:
        raise MigrationError(
            f"{table} has {', '.join(again)} again, so what was archived cannot come back, and stays in {copy}: drop or "
            "rename it, then run the same again"
        )
    matched = look.scalar(f"SELECT EXISTS (SELECT 1 {_joined(going)} WHERE NOT ({_fresh(going)}))")
    if look.has_rows(copy) and not matched and force_reason() is None:
        raise MigrationError(
            f"none of the rows in {copy} is in {table} any more, so it stays: is this another table of that name? "
            "Rename it, or fix its keys, then run the same again. To go on without them: alembic -x force='reason' "
            "downgrade ..."
        )


def empty_copy(going: GoingColumns) -> None:
    if look.has_table(aside_of(going)):
        return
    if columns := definition(going).get("columns"):
        names = (*look.key_of(going.table, going.key), *(column["name"] for column in columns))
        kept = ", ".join(map(sql.name, (*names, "pipestate_changed_at")))
        sql.emit(f"CREATE TABLE {sql.name(aside_of(going))} ({kept})")


def _joined(going: GoingColumns) -> str:
    """Write the FROM clause: rows `s` of the table, with their archived values `a`."""
    key = look.key_of(going.table, going.key)
    same = " AND ".join(f"a.{sql.name(name)} = s.{sql.name(name)}" for name in key)
    return f"FROM {sql.name(going.table)} s LEFT JOIN {sql.name(aside_of(going))} a ON {same}"


def _fresh(going: GoingColumns) -> str:
    return f"a.{sql.name(look.key_of(going.table, going.key)[0])} IS NULL"


def _changed(going: GoingColumns) -> str:
    return f"s.{sql.name(going.changed_at)} IS NOT a.pipestate_changed_at" if going.changed_at else "0"


def _fill(going: GoingColumns, columns: list[dict[str, Any]]) -> None:
    table = sql.name(going.table)
    key = look.key_of(going.table, going.key)
    itself = " AND ".join(f"s.{sql.name(name)} = {table}.{sql.name(name)}" for name in key)
    assignments = []
    for column in columns:
        name, derived = sql.name(column["name"]), going.derived.get(column["name"], "NULL")
        assignments.append(
            f"{name} = (SELECT CASE WHEN {_fresh(going)} THEN coalesce(({derived}), {column['default'] or 'NULL'}) "
            f"WHEN {_changed(going)} THEN coalesce(({derived}), a.{name}) ELSE a.{name} END "
            f"{_joined(going)} WHERE {itself})"
        )
    sql.emit(f"UPDATE {table} SET {', '.join(assignments)}")


def _prove_return(going: GoingColumns, columns: list[dict[str, Any]]) -> None:
    """Refuse to let the copy go unless every row that did not change since has its archived values, types included."""
    differs = " OR ".join(
        f"s.{name} IS NOT a.{name} OR typeof(s.{name}) <> typeof(a.{name})"
        for name in (sql.name(column["name"]) for column in columns)
    )
    lost = look.scalar(
        f"SELECT count(*) {_joined(going)} WHERE NOT ({_fresh(going)}) AND NOT ({_changed(going)}) AND ({differs})"
    )
    if lost:
        raise MigrationError(
            f"{lost} rows of {going.table} did not get their archived values back, so nothing was changed: "
            "something changes them as they are written. Find it, then run the same again"
        )
    same = " AND ".join(f"a.{name} = s.{name}" for name in map(sql.name, look.key_of(going.table, going.key)))
    gone = look.scalar(
        f"SELECT count(*) FROM {sql.name(aside_of(going))} a "
        f"WHERE NOT EXISTS (SELECT 1 FROM {sql.name(going.table)} s WHERE {same})"
    )
    if gone:
        warn(
            "nothing takes the archived values of %s of %s: deleted since, or under another key by now",
            "one row" if gone == 1 else f"{gone} rows",
            going.table,
        )


def _has_null(table: str, column: str) -> bool:
    name = sql.name(column)
    return bool(look.scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.name(table)} WHERE {name} IS NULL)"))


def _put_back(table: str, archived: dict[str, Any], empty: list[str]) -> None:
    """Give the columns their defaults, NOT NULL and indexes one by one: the table is not what the contract left."""
    for name in empty:
        warn("%s.%s stays nullable: rows written since have no value for it", table, name)
    defaults = {c["name"]: c["default"] for c in archived["columns"] if c["default"] is not None}
    if defaults:
        with rebuilt(table) as batch:
            for name, default in defaults.items():
                batch.alter_column(name, server_default=sa.text(default.replace(":", "\\:")))
    for statement in archived["indexes"]:
        sql.emit(statement)
    required = [c["name"] for c in archived["columns"] if c["not_null"] and c["name"] not in empty]
    require_not_null(table, "", {name: name for name in required})
    warn(
        "%s has changed since its columns went: what its definition said about them besides type, default, NOT NULL "
        "and indexes did not come back. It was: %s",
        table,
        archived["created"],
    )
