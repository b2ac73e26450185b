"""Tables, views, columns and constraints on PostgreSQL: adopted or created, dropped only if the migrations created
them."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateTable

from pipestate.migration import sql
from pipestate.migration.adoption import Index, Shape
from pipestate.migration.engine import BATCH_SIZE
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.contract import restore_dropped_table
from pipestate.migration.postgresql.indexes import (
    add_to_partitions,
    is_partitioned,
    no_steps_for_partitions,
    validate_partitions,
)
from pipestate.migration.postgresql.session import lock_tables, patiently
from pipestate.migration.run import current_run


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse, before the first change, a table of the right name with another shape."""
    for shape in shapes:
        options: dict[str, calls.Argument] = {}
        if shape.partitions:
            options["may_be_partitioned"] = True
        if shape.unique:
            options["the_unique"] = shape.unique
        if shape.times:
            options["the_times"] = shape.times
        calls.call("require_shape", sql.name(shape.table), shape.key, shape.columns, **options)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database if the table has all `having` columns, no `lacking` column, and `gone` is absent."""
    calls.refuse_when(
        f"{sql.regclass(gone)} IS NULL AND {calls.function('has_columns', sql.name(table), having, lacking)}",
        message,
    )


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    keys = [key] if isinstance(key, str) else list(key)
    only_where: dict[str, calls.Argument] = {} if condition == "true" else {"the_condition": condition}
    with sql.autocommit():
        calls.call("update_in_batches", sql.name(table), keys, size, statement, **only_where)


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; restore it if a downgrade put it into the archive.

    An existing table is left as it is: the helpers that add columns, constraints and indexes adopt it.
    """
    restore_dropped_table(table.name, current_run().revision)
    statement = str(CreateTable(table).compile(dialect=sql.POSTGRESQL)).strip()
    lines = (line.replace("\t", "  ").rstrip() for line in statement.splitlines())
    options = calls.registered()
    if indexes:
        options["the_indexes"] = {index.name: index.statement() for index in indexes}
    calls.call("create_table", sql.name(table.name), "\n".join(lines), **options)


def drop_table(name: str) -> None:
    """Drop an empty table that the migrations created; archive one with rows, so that it can be restored."""
    with patiently(name) as patience:
        calls.call(
            "drop_table", sql.name(name), name, current_run().revision, **calls.unregistered(), **patience
        )


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    create = f"CREATE VIEW {sql.name(name)} AS {queries['postgresql']}"
    calls.run_when(f"{sql.regclass(name)} IS NULL", create, sql.remember("view", name))
    calls.run_when(calls.is_ours("view", name), f"COMMENT ON VIEW {sql.name(name)} IS {sql.literal(comment)}")


def drop_view(name: str) -> None:
    calls.run_when(calls.is_ours("view", name), f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(sql.forget("view", name))


def analyze_table(*tables: str) -> None:
    with sql.autocommit():
        for table in tables:
            statement = sql.literal(f"ANALYZE {sql.name(table)}")
            sql.execute_each(f"SELECT {statement} WHERE {sql.regclass(table)} IS NOT NULL")


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    calls.call("replace_comment", sql.name(table), comment, revision)


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    calls.call("restore_comment", sql.name(table), comment, revision)


# Columns: added in one ALTER, adopted if they already exist, never with a rewrite.


def add_columns(addition: sa.Table) -> None:
    """Add the missing columns of `addition` to a table, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. An existing column with a type of another
    family is refused; one without its default gets it.
    """
    table = addition.name
    definitions = {column.name: _definition(column) for column in addition.columns}
    with patiently(table) as patience:
        calls.call("add_columns", sql.name(table), definitions, **calls.registered(), **patience)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    with patiently(table) as patience:
        calls.call("drop_columns", sql.name(table), list(columns), **calls.registered(), **patience)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC no row is rewritten. PostgreSQL would rebuild an index on the column under the lock, so the
    indexes in `indexes` are dropped first: create them again, concurrently, afterwards. Another zone makes
    PostgreSQL rewrite the table under the lock; the documentation says so.
    """
    zone = current_run().naive_timezone
    with patiently(table) as patience:
        calls.call(
            "use_timestamptz",
            sql.name(table),
            list(columns),
            zone,
            [sql.name(index) for index in indexes],
            **patience,
        )


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    """Make columns NOT NULL; first replace each NULL by the column's repair expression, in batches.

    A repair that equals its column repairs nothing: the error names the rows with a NULL, and the table stays
    unchanged.

    1. In batches, repair the rows that hold a NULL.
    2. Under a short lock, add an equivalent CHECK, NOT VALID; validate it while writers continue.
    3. Under a short lock, SET NOT NULL, which now needs no scan, and drop the CHECK.
    """
    rule = f"ck_{table}_present"
    written, columns = sql.name(table), list(repairs)
    nullable = calls.function("is_nullable", written, columns)
    hopeless = " OR ".join(f"{sql.name(column)} IS NULL" for column in repairs if repairs[column] == column)
    if hopeless:
        refuse_rows(table, hopeless, f"have no value ({hopeless})", when=nullable)
    names = [sql.name(column) for column in columns]
    holes = "\n  OR ".join(f"{name} IS NULL" for name in names)
    filled = ",\n  ".join(
        f"{name} = coalesce({name}, {repairs[column]})"
        for column, name in zip(columns, names, strict=True)
        if repairs[column] != column
    )
    if filled:
        update = f"UPDATE {written} SET\n  {filled}\nWHERE {{range}} AND (\n  {holes})"
        update_in_batches(table, key, update, condition=nullable)
    with patiently(table) as patience:
        calls.call("begin_not_null", written, rule, columns, **patience)
    validate(table, rule, required=False)
    with patiently(table) as patience:
        calls.call("end_not_null", written, rule, columns, **patience)


def set_default(table: str, column: str, expression: str) -> None:
    """Give a nullable column of an adopted table a default, so that its writers keep working."""
    needs_one = calls.function("lacks_default", sql.name(table), column)
    lock_tables(table, when=needs_one)
    calls.run_when(
        needs_one, f"ALTER TABLE {sql.name(table)} ALTER COLUMN {sql.name(column)} SET DEFAULT {expression}"
    )


def comment_column(table: str, column: str, comment: str) -> None:
    sql.emit(f"COMMENT ON COLUMN {sql.name(f'{table}.{column}')} IS {sql.literal(comment)}")


def _definition(column: sa.Column[Any]) -> str:
    """Write the type and the rest of the column's definition, without its name."""
    written = str(CreateColumn(column).compile(dialect=sql.POSTGRESQL))
    return written.removeprefix(sql.identifier(column.name)).lstrip()


# Constraints: added NOT VALID under a lock of milliseconds, then validated while writers continue.


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    """Add named CHECKs. Search for violating rows first: if there are any, the table stays unchanged."""
    with patiently(table) as patience:
        calls.call("add_checks", sql.name(table), checks, **calls.registered(), **patience)
    validate(table, *checks)


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
    """Add a named foreign key, unless the table already has one on that column to that target."""
    child, parent = sql.name(column), sql.name(target_column)
    action = {"CASCADE": "c", "SET NULL": "n"}[on_delete]
    missing = calls.function("lacks_foreign_key", sql.name(table), column, sql.name(target), action)
    refuse_rows(
        table,
        f"{child} IS NOT NULL AND NOT EXISTS (SELECT FROM {sql.name(target)} p WHERE p.{parent} = t.{child})",
        f"point at no row of {target} ({column})",
        when=missing,
    )
    calls.refuse_found(
        f"SELECT {calls.function('other_foreign_key', sql.name(table), name, sql.name(target), action)}",
        f"foreign key {name} on {table} exists with another definition: {{found}}; wanted: "
        f"({column}) to {target}({target_column}) on delete {on_delete.lower()}. Drop it, then run the same "
        "again",
    )
    definition = f"FOREIGN KEY ({child}) REFERENCES {sql.name(target)} ({parent}) ON DELETE {on_delete}"
    if sql.is_offline() and not partitions:
        calls.refuse_when(f"{missing} AND {is_partitioned(table)}", no_steps_for_partitions(table))
    elif sql.is_offline() or sql.is_true(calls.at_home(is_partitioned(table))):
        _add_by_partition(table, name, definition, target, f"{missing} AND {is_partitioned(table)}")
    lock_tables(table, target, when=missing)
    _add(table, name, f"{definition} NOT VALID", missing)
    validate(table, name, required=False)


def _add_by_partition(table: str, name: str, definition: str, target: str, needed: str) -> None:
    """Add the foreign key to each partition, validate it there, then let the table adopt them."""
    lock_tables(table, target, when=needed)
    add_to_partitions(table, name, definition, needed)
    with sql.autocommit():
        validate_partitions(table, name, needed)
    lock_tables(table, target, when=needed)
    _add(table, name, definition, needed)


def drop_constraint(table: str, name: str) -> None:
    with patiently(table) as patience:
        calls.call("drop_constraint", sql.name(table), name, **calls.unregistered(), **patience)


def refuse_rows(table: str, condition: str, what: str, *, when: str = "true") -> None:
    """Stop, before any change, if rows would break a rule. The row is `t` in SQL."""
    calls.call("refuse_rows", sql.name(table), condition, what, when)


def validate(table: str, *names: str, required: bool = True) -> None:
    """Validate constraints without blocking writers; in autocommit, to release other locks first."""
    with sql.autocommit():
        calls.call("validate_constraints", sql.name(table), list(names))
    if sql.is_offline():
        calls.call("require_valid", sql.name(table), list(names), required)


def _add(table: str, name: str, definition: str, needed: str) -> None:
    calls.run_when(
        needed,
        f"ALTER TABLE {sql.name(table)} ADD CONSTRAINT {sql.name(name)} {definition}",
        sql.remember("constraint", f"{table}.{name}"),
    )
