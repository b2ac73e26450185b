"""Columns: added in one ALTER, adopted if they already exist, never with a rewrite."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from pipestate.migration import sql
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.constraints import refuse_rows, validate
from pipestate.migration.postgresql.locks import lock_tables, patiently
from pipestate.migration.postgresql.tables import update_in_batches
from pipestate.migration.run import current_run


def add_columns(addition: sa.Table) -> None:
    """Add the missing columns of `addition` to a table, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. An existing column with a type of another family is
    refused; one without its default gets it.
    """
    table = addition.name
    definitions = {column.name: _definition(column) for column in addition.columns}
    with patiently(table) as patience:
        calls.call("add_columns", sql.name(table), definitions, **calls.registered(), **patience)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those that the chain created, in one ALTER."""
    with patiently(table) as patience:
        calls.call("drop_columns", sql.name(table), list(columns), **calls.unregistered(), **patience)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC no row is rewritten. PostgreSQL would rebuild an index on the column under the lock, so the indexes in
    `indexes` are dropped first: create them again, concurrently, afterwards. Another zone makes PostgreSQL rewrite
    the table under the lock; the documentation says so.
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
    needs_one = (
        f"EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname = {sql.literal(column)} AND NOT atthasdef AND NOT attnotnull)"
    )
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
