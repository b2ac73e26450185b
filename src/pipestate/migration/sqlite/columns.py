"""Columns on SQLite: added as they are, or by a rebuild if ADD COLUMN cannot."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from pipestate.migration import objects, sql
from pipestate.migration.definitions import Index
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.sqlite import catalog
from pipestate.migration.sqlite.rebuild import rebuilt, refuse_rows


def add_columns(addition: sa.Table) -> None:
    """Add columns by plain ADD COLUMN; a non-constant default needs the table rebuilt."""
    known = catalog.column_names(addition.name)
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
    ours = [column for column in columns if catalog.is_ours("column", f"{table}.{column}")]
    there = [column for column in ours if column in catalog.column_names(table)]
    if there:
        with rebuilt(table, without=there) as batch:
            for column in there:
                batch.drop_column(column)
    for column in ours:
        sql.emit(objects.forget("column", f"{table}.{column}"))


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    nullable = [
        c["name"] for c in catalog.inspector().get_columns(table) if c["name"] in repairs and c["nullable"]
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
    """Do nothing: a non-constant default needs a rebuild, and writers here are few."""


def comment_column(table: str, column: str, comment: str) -> None:
    """Do nothing: SQLite has no comments."""


def _fix_defaults(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    """Fix adopted booleans that hold the text 'FALSE', and columns without their default."""
    for column in columns:
        if isinstance(column.type, sa.Boolean):
            name = sql.name(column.name)
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 0 WHERE upper({name}) IN ('FALSE', 'F')")
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 1 WHERE upper({name}) IN ('TRUE', 'T')")
    actual = {column["name"]: column["default"] for column in catalog.inspector().get_columns(table)}
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


# Constraints on SQLite: added by a rebuild; violating rows are refused first.


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    known = {c["name"] for c in catalog.inspector().get_check_constraints(table)}
    missing = {name: condition for name, condition in checks.items() if name not in known}
    if not missing:
        return
    for name, condition in missing.items():
        refuse_rows(table, f"NOT ({condition})", f"would break the rule {name} ({condition})")
    with rebuilt(table) as batch:
        for name, condition in missing.items():
            batch.create_check_constraint(name, sa.text(condition))
    for name in missing:
        sql.emit(objects.remember("constraint", f"{table}.{name}"))


def add_foreign_key(
    table: str,
    name: str,
    column: str,
    target: str,
    *,
    on_delete: str,
    target_column: str = "id",
    partitions: bool = False,
) -> None:
    del partitions  # SQLite has none
    for key in catalog.inspector().get_foreign_keys(table):
        if key["constrained_columns"] == [column] and key["referred_table"] == target:
            if key["options"].get("ondelete") == on_delete:
                return
            raise MigrationError(
                f"{table}.{column} has a foreign key to {target} without on delete {on_delete.lower()}: "
                "change it, then run the same again"
            )
    child, parent = sql.name(column), sql.name(target_column)
    refuse_rows(
        table,
        f"{child} IS NOT NULL AND {child} NOT IN (SELECT {parent} FROM {sql.name(target)})",
        f"point at no row of {target} ({column})",
    )
    with rebuilt(table) as batch:
        batch.create_foreign_key(name, target, [column], [target_column], ondelete=on_delete)
    sql.emit(objects.remember("constraint", f"{table}.{name}"))


def drop_constraint(table: str, name: str) -> None:
    if catalog.is_ours("constraint", f"{table}.{name}") and catalog.has_table(table):
        kind = (
            "check"
            if name in {c["name"] for c in catalog.inspector().get_check_constraints(table)}
            else "foreignkey"
        )
        with rebuilt(table, without=[name]) as batch:
            batch.drop_constraint(name, type_=kind)
    sql.emit(objects.forget("constraint", f"{table}.{name}"))


# Indexes on SQLite: built, and rebuilt if the definition differs, in the revision's transaction.


def create_index(index: Index) -> None:
    if not _is_wanted(index):
        return
    actual = catalog.index_definition(index.name)
    if actual is None:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    elif index.name not in catalog.indexes(index.table):
        raise MigrationError(
            f"{index.name} exists, but is no index of {index.table}: {actual}; wanted: {index.statement()}. "
            "Drop or rename it, then run the same again"
        )
    elif catalog.folded(actual) != catalog.folded(index.statement()):
        sql.emit(f"DROP INDEX {sql.name(index.name)}")
        sql.emit(index.statement())
        warn("index %s was another one (%s): rebuilt as %s", index.name, actual, index.statement())


def _is_wanted(index: Index) -> bool:
    """Say whether this table has the columns that the index needs."""
    if index.types:
        return False
    if not index.needs:
        return True
    return catalog.has_table(index.table) and set(index.needs) <= set(catalog.column_names(index.table))


def drop_index(name: str, *, partitions: bool = False) -> None:
    del partitions  # SQLite has none
    if catalog.is_ours("index", name):
        sql.emit(f"DROP INDEX IF EXISTS {sql.name(name)}")
        sql.emit(objects.forget("index", name))
