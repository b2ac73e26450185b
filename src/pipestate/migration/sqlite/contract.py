"""A contract on SQLite: tables are renamed, columns copied aside, all in the transaction of the revision."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pipestate.database.drivers import message
from pipestate.migration import sql
from pipestate.migration.alembic import is_upgrade
from pipestate.migration.contract import Drop, DroppedColumns
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.request import force_reason, require_token
from pipestate.migration.sqlite import catalog, dropped_tables
from pipestate.migration.sqlite.catalog import with_added_columns
from pipestate.migration.sqlite.dropped_tables import (
    NO_TRIGGERS,
    aside_of,
    definition,
    forget,
    record,
    refuse_absent,
    refuse_readers,
    row_of_then,
    rows_of,
    warn_of_orphans,
)
from pipestate.migration.sqlite.dropped_values import (
    is_modified,
    is_new,
    joined,
    refuse_stale_values,
    same_row,
)
from pipestate.migration.sqlite.rebuild import (
    dropped_in_place,
    rebuild_as,
    rebuilt,
    refuse_live_references,
    refuse_unfit_rebuild,
    savepoint,
    without_triggers,
)
from pipestate.migration.sqlite.session import switch_foreign_keys_off


def refuse_unfit_columns(dropped: DroppedColumns, *, must_exist: bool = False) -> None:
    there = set(catalog.column_names(dropped.table)) if catalog.has_table(dropped.table) else set()
    missing = [column for column in dropped.columns if column not in there]
    if missing and must_exist:
        refuse_absent(dropped.revision, ", ".join(f"{dropped.table}.{column}" for column in missing))
    if len(missing) == len(dropped.columns):
        return
    if computed := [name for name in catalog.computed(dropped.table) if name in dropped.columns]:
        raise MigrationError(
            f"{dropped.table} computes {', '.join(computed)} from other columns, so there is no value to "
            "keep: drop that column in a revision of its own, then run the same again"
        )
    key = catalog.key_of(dropped.table, dropped.key)
    in_key = {name.lower() for name in key}
    if both := [column for column in dropped.columns if column.lower() in in_key]:
        raise MigrationError(
            f"{', '.join(both)} of {dropped.table} cannot be dropped: the restore finds rows by it. Name "
            f"another key, keys={{'{dropped.table}': [...]}}"
        )
    _refuse_no_key(dropped.table, key)
    present = [column for column in dropped.columns if column not in missing]
    for column in present:
        refuse_readers(dropped.table, column)
    refuse_unfit_rebuild(dropped.table, present)


def _refuse_no_key(table: str, key: Sequence[str]) -> None:
    """Refuse columns that do not identify a row: a restore finds values by their key."""
    names = ", ".join(key)
    if catalog.collations_of_key(table, key) is None:
        raise MigrationError(
            f"{table} ({names}) is no key: it needs a unique index. Add that, or name another key, "
            f"keys={{'{table}': [...]}}"
        )
    empty = " OR ".join(f"{sql.quoted(name)} IS NULL" for name in key)
    if rows := catalog.scalar(f"SELECT count(*) FROM {sql.quoted(table)} WHERE {empty}"):
        raise MigrationError(
            f"{rows} rows of {table} have no value in {names}, so a restore could not find them: fill it in, or "
            f"name another key, keys={{'{table}': [...]}}"
        )


def soft_drop_columns(dropped: DroppedColumns) -> None:
    refuse_unfit_columns(dropped)
    table, copy = dropped.table, aside_of(dropped)
    there = [column for column in catalog.inspector().get_columns(table) if column["name"] in dropped.columns]
    if not there:
        return
    if catalog.has_table(copy):
        raise MigrationError(
            f"{copy} exists already, from an earlier contract: save its rows if needed, drop it, then run the same "
            "again"
        )
    names = [str(column["name"]) for column in there]
    key = catalog.key_of(table, dropped.key)
    collations = catalog.collations_of_key(table, key) or {}
    kept = (*map(sql.quoted, (*key, *names)), *row_of_then(table, dropped.changed_at, without=names))
    sql.emit(f"CREATE TABLE {sql.quoted(copy)} AS SELECT {', '.join(kept)} FROM {sql.quoted(table)}")
    indexed = ", ".join(f"{sql.quoted(name)} COLLATE {collations[name.lower()]}" for name in key)
    sql.emit(f"CREATE UNIQUE INDEX {sql.quoted(f'{copy}_key')} ON {sql.quoted(copy)} ({indexed})")
    columns = [
        {
            "name": column["name"],
            "type": catalog.column_type(table, str(column["name"])),
            "default": column["default"],
            "not_null": not column["nullable"],
        }
        for column in there
    ]
    created, indexes = catalog.created_as(table), catalog.indexes(table)
    if not dropped_in_place(table, names):
        with rebuilt(table, without=names) as batch:
            for name in names:
                batch.drop_column(name)
    # SQLite also drops an index with a column that its expression or its WHERE names.
    left = catalog.indexes(table)
    record(
        dropped,
        {
            "held": catalog.has_rows(copy),
            "columns": columns,
            "collations": collations,
            "indexes": {name: statement for name, statement in indexes.items() if name not in left},
            "created": created,
            "left": catalog.created_as(table),
        },
    )


def refuse_unfit_restore(dropped: DroppedColumns) -> None:
    """Refuse, before the first change, a table that cannot take its columns back."""
    table, copy = dropped.table, aside_of(dropped)
    kept = definition(dropped)
    if not catalog.has_table(copy) or "columns" not in kept:
        return
    if not catalog.has_table(table):
        raise MigrationError(
            f"{table} does not exist under that name, so {dropped.described} cannot be restored; the values stay in "
            f"{copy}. Rename the table back, then run the same again"
        )
    there = {name.lower() for name in catalog.column_names(table)}
    if again := [column["name"] for column in kept["columns"] if column["name"].lower() in there]:
        raise MigrationError(
            f"{table} has {', '.join(again)} again, so the dropped values cannot be restored; they stay in {copy}. "
            "Drop or rename the new column, then run the same again"
        )
    refuse_live_references(table)
    matched = catalog.scalar(f"SELECT EXISTS (SELECT 1 {joined(dropped)} WHERE NOT ({is_new(dropped)}))")
    if catalog.has_rows(copy) and not matched and force_reason() is None:
        raise MigrationError(
            f"no row of {copy} matches a row in {table}, so {copy} is kept: if {table} is a new table, rename it, "
            "else correct its keys, then run the same again. To go on without them: alembic -x "
            f"force='reason' {'upgrade' if is_upgrade() else 'downgrade'} ..."
        )


def restore_columns(dropped: DroppedColumns) -> None:
    kept = definition(dropped)
    if not catalog.has_table(aside_of(dropped)) or "columns" not in kept:
        return
    refuse_unfit_restore(dropped)
    table = dropped.table
    created = with_added_columns(kept["created"], kept["left"], catalog.created_as(table))
    for column in kept["columns"]:
        sql.emit(f"ALTER TABLE {sql.quoted(table)} ADD COLUMN {sql.quoted(column['name'])} {column['type']}")
    with without_triggers(table):
        _fill(dropped, kept["columns"])
    _prove_restore(dropped, kept["columns"])
    empty = [c["name"] for c in kept["columns"] if c["not_null"] and _has_null(table, c["name"])]
    for name in empty:
        warn("%s.%s stays nullable: rows written since have no value for it", table, name)
    if created is None or empty or not _rebuilt_as_before(table, created):
        _restore_in_part(table, kept, empty)
    for name, statement in kept["indexes"].items():
        _restore_index(name, statement)
    warn_of_orphans(table)
    sql.emit(f"DROP TABLE {sql.quoted(aside_of(dropped))}")
    forget(dropped)


def empty_copy(dropped: DroppedColumns) -> None:
    """Make an empty copy for a forced restore: every row then takes its derived value or its default."""
    if catalog.has_table(aside_of(dropped)):
        return
    if columns := definition(dropped).get("columns"):
        names = (*catalog.key_of(dropped.table, dropped.key), *(column["name"] for column in columns))
        sql.emit(f"CREATE TABLE {sql.quoted(aside_of(dropped))} ({', '.join(map(sql.quoted, names))})")


def _fill(dropped: DroppedColumns, columns: list[dict[str, Any]]) -> None:
    found = f"FROM (SELECT 1) LEFT JOIN {sql.quoted(aside_of(dropped))} a ON {same_row(dropped)}"
    assignments = []
    for column in columns:
        name, derived = sql.quoted(column["name"]), dropped.derived.get(column["name"], "NULL")
        assignments.append(
            f"{name} = (SELECT CASE WHEN {is_new(dropped)} THEN coalesce(({derived}), "
            f"{column['default'] or 'NULL'}) WHEN {is_modified(dropped)} THEN coalesce(({derived}), a.{name}) "
            f"ELSE a.{name} END {found})"
        )
    sql.emit(f"UPDATE {sql.quoted(dropped.table)} AS s SET {', '.join(assignments)}")


def _prove_restore(dropped: DroppedColumns, columns: list[dict[str, Any]]) -> None:
    """Keep the copy unless every unmodified row has its dropped values, types included."""
    differs = " OR ".join(
        f"s.{name} IS NOT a.{name} OR typeof(s.{name}) <> typeof(a.{name})"
        for name in (sql.quoted(column["name"]) for column in columns)
    )
    lost = catalog.scalar(
        f"SELECT count(*) {joined(dropped)} WHERE NOT ({is_new(dropped)}) AND NOT ({is_modified(dropped)}) AND "
        f"({differs})"
    )
    if lost:
        raise MigrationError(
            f"{lost} rows of {dropped.table} could not get their dropped values back, so nothing was restored: a "
            "trigger may overwrite them. Find it, then run the same again"
        )
    deleted = catalog.scalar(
        f"SELECT count(*) FROM {sql.quoted(aside_of(dropped))} a "
        f"WHERE NOT EXISTS (SELECT 1 FROM {sql.quoted(dropped.table)} s WHERE {same_row(dropped)})"
    )
    if deleted:
        warn(
            "the dropped values of %s of %s were not restored: their rows were deleted, or their keys changed",
            rows_of(deleted),
            dropped.table,
        )


def _has_null(table: str, column: str) -> bool:
    name = sql.quoted(column)
    return bool(catalog.scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.quoted(table)} WHERE {name} IS NULL)"))


def _rebuilt_as_before(table: str, created: str) -> bool:
    """Give the table its old definition; warn and change nothing if rows written since break it."""
    try:
        with savepoint("pipestate_restore"):
            rebuild_as(table, created, catalog.attached(table))
    except IntegrityError as error:
        warn("%s has rows that break its old definition: %s", table, message(error))
        return False
    return True


def _restore_index(name: str, statement: str) -> None:
    """Create an index again; warn if another has its name, or rows written since break it."""
    if (other := catalog.index_definition(name)) is not None:
        if other != statement:
            warn("another index has the name %s, so the dropped one was not restored: %s", name, statement)
        return
    try:
        with savepoint("pipestate_index"):
            sql.emit(statement)
    except IntegrityError as error:
        warn("index %s was not restored, because rows break it (%s): %s", name, message(error), statement)


def _restore_in_part(table: str, kept: dict[str, Any], empty: list[str]) -> None:
    """Give the columns their defaults and NOT NULL.

    Warn that the rest of the old definition is not restored.
    """
    changes = {
        column["name"]: {
            **({} if column["default"] is None else {"server_default": column["default"]}),
            **({"nullable": False} if column["not_null"] and column["name"] not in empty else {}),
        }
        for column in kept["columns"]
    }
    restored = "type"
    if any(changes.values()) and not catalog.lost_by_batch_mode(table):
        restored = "type, default and NOT NULL"
        with rebuilt(table) as batch:
            for name, change in changes.items():
                if "server_default" in change:
                    change["server_default"] = sa.text(str(change["server_default"]).replace(":", "\\:"))
                if change:
                    batch.alter_column(name, **change)
    warn(
        "%s was not restored in full: of its columns %s only %s came back. It was: %s",
        table,
        ", ".join(changes),
        restored,
        kept["created"],
    )


# A contract on SQLite: tables are renamed, columns copied aside, all in the transaction of the revision.


def also_locked(drop: Drop) -> None:
    """Lock nothing else: a file has one writer."""
    del drop


def refuse_drop(drop: Drop) -> None:
    """Refuse, before the first change, objects that could not be restored."""
    if drop.triggers:
        raise MigrationError(NO_TRIGGERS)
    switch_foreign_keys_off(catalog.connection())
    for table in drop.tables:
        dropped_tables.refuse_unfit_table(
            table, must_exist=not drop.may_be_gone, others=[some.table for some in drop.columns]
        )
    for some in drop.columns:
        refuse_unfit_columns(some, must_exist=not drop.may_be_gone)


def soft_drop(drop: Drop) -> None:
    """Drop columns first: their foreign keys may point at the tables."""
    require_token("a Contract", *(part.table for part in drop.parts))
    if not drop.keep:
        _drop_for_good(drop)
        return
    for table in drop.tables:
        dropped_tables.keep_baseline(table)
    for some in drop.columns:
        soft_drop_columns(some)
    for table in drop.tables:
        dropped_tables.soft_drop_table(table)
    for part in drop.parts if drop.may_be_gone else ():
        dropped_tables.note_absence(part)


def restore(drop: Drop) -> None:
    """Restore tables first: foreign keys of the columns may point at them."""
    switch_foreign_keys_off(catalog.connection())
    for part in drop.parts:
        dropped_tables.require_kept(part)
    for some in drop.columns:
        refuse_unfit_restore(some)
        refuse_stale_values(some)
    for table in drop.tables:
        dropped_tables.restore_table(table)
    for some in drop.columns:
        if force_reason() is not None:
            empty_copy(some)
        restore_columns(some)
    for part in drop.parts:
        dropped_tables.forget(part)


def _drop_for_good(drop: Drop) -> None:
    """Drop columns first: with foreign_keys on, DROP TABLE deletes the rows that point at it."""
    for some in drop.columns:
        if not catalog.has_table(some.table):
            continue
        names = [name for name in catalog.column_names(some.table) if name in some.columns]
        if names and not dropped_in_place(some.table, names):
            with rebuilt(some.table, without=names) as batch:
                for name in names:
                    batch.drop_column(name)
    for table in drop.tables:
        if catalog.has_table(table.table):
            sql.emit(f"DROP TABLE {sql.quoted(table.table)}")
