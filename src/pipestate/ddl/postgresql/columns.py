"""Columns: added in one ALTER, adopted where somebody added them before, never with a rewrite."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateColumn

from pipestate.ddl import objects, sql
from pipestate.ddl.postgresql.batches import update_in_batches
from pipestate.ddl.postgresql.constraints import refuse_rows
from pipestate.ddl.postgresql.locks import lock_tables

# What an adopted column may be, for what we would have created: conditions on its pg_type row.
FAMILIES = {
    "integers": "typname IN ('int2', 'int4', 'int8')",
    "text": "typcategory IN ('S', 'E')",
    "booleans": "typname = 'bool'",
    "times": "typname IN ('timestamp', 'timestamptz')",
}


def add_columns(addition: sa.Table) -> None:
    """Add to a table those of `addition`'s columns that it lacks, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. A column that is there with a type of
    another family is refused; one that is there without its default gets it.
    """
    table, columns = addition.name, list(addition.columns)
    _refuse_other_types(table, columns)
    incomplete = _incomplete(table, columns)
    if objects.kept():
        sql.emit(
            objects.remember_selected(
                "column",
                f"{sql.literal(table + '.')} || wanted",
                f"FROM unnest(ARRAY[{sql.literals([column.name for column in columns])}]) AS wanted "
                f"WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
                "AND attname = wanted AND NOT attisdropped)",
            )
        )
    lock_tables(table, when=incomplete)
    additions = ",\n  ".join(f"ADD COLUMN IF NOT EXISTS {_definition(column)}" for column in columns)
    defaults = ",\n  ".join(
        f"ALTER COLUMN {sql.name(column.name)} SET DEFAULT {_default(column)}"
        for column in columns
        if column.server_default is not None
    )
    actions = f"{additions},\n  {defaults}" if defaults else additions
    sql.do_when(
        incomplete, f"ALTER TABLE {sql.name(table)}\n  {actions}", why=f"the columns that {table} lacks"
    )


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those that the chain created, in one ALTER."""
    ours = (
        f"SELECT string_agg(format('DROP COLUMN IF EXISTS %I', c), ', ') "
        f"FROM unnest(ARRAY[{sql.literals(list(columns))}]) c"
    )
    if objects.kept():
        ours += (
            f" WHERE EXISTS (SELECT FROM {objects.registry()} "
            f"WHERE kind = 'column' AND name = {sql.literal(table + '.')} || c)"
        )
    lock_tables(table)
    sql.do(
        f"""  todo := ({ours});
  IF todo IS NOT NULL THEN EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} ")} || todo; END IF;""",
        "  todo text;",
    )
    for column in columns:
        sql.emit(objects.forget("column", f"{table}.{column}"))


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC nothing is rewritten. An index on the column would be rebuilt under the lock, so those
    that are named are dropped first: create them again, concurrently, afterwards. Another zone makes
    PostgreSQL rewrite the table under the lock; the documentation says so.
    """
    zone = op.get_context().opts.get("pipestate_naive_timezone", "UTC")
    anything = " OR ".join(
        _has_column(table, column, also=" AND atttypid = 'timestamp'::regtype") for column in columns
    )
    lock_tables(table, when=anything)
    sql.do_when(anything, *(f"DROP INDEX IF EXISTS {sql.name(index)}" for index in indexes))
    sql.do(
        f"""  PERFORM set_config('TimeZone', {sql.literal(zone)}, true);
  SELECT string_agg(format('ALTER COLUMN %I TYPE timestamptz', attname), ', ') INTO todo
  FROM pg_attribute WHERE attrelid = {sql.regclass(table)} AND atttypid = 'timestamp'::regtype
    AND attname IN ({sql.literals(list(columns))}) AND NOT attisdropped;
  IF todo IS NOT NULL THEN EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} ")} || todo; END IF;
  PERFORM set_config('TimeZone', 'UTC', true);""",
        "  todo text;",
        why=f"naive timestamps of {table}, read as {zone}",
    )


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    """Make columns NOT NULL; where one holds NULL, its repair expression first, in batches.

    A column whose repair is itself has none: rows with a NULL there are named, and nothing changes.

    1. In batches, repair the rows that hold a NULL.
    2. Under a short lock, a CHECK that says the same, NOT VALID; validated beside the traffic.
    3. Under a short lock, SET NOT NULL, which now needs no scan, and the CHECK goes.
    """
    rule = f"ck_{table}_present"
    names = {column: sql.name(column) for column in repairs}
    nullable = (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname IN ({sql.literals(list(repairs))}) AND NOT attnotnull AND NOT attisdropped)"
    )
    holes = " OR ".join(f"{column} IS NULL" for column in names.values())
    if hopeless := beyond_repair(repairs):
        refuse_rows(table, hopeless, f"have no value ({hopeless})", when=nullable)
    repairs = {column: repair for column, repair in repairs.items() if repair != column}
    filled = ", ".join(f"{names[c]} = coalesce({names[c]}, {repair})" for c, repair in repairs.items())
    update_in_batches(
        table,
        key,
        f"UPDATE {sql.name(table)} SET {filled} WHERE {{range}} AND ({holes})",
        condition=nullable,
    )
    present = " AND ".join(f"{column} IS NOT NULL" for column in names.values())
    alter = f"ALTER TABLE {sql.name(table)}"
    has_rule = (
        f"EXISTS (SELECT FROM pg_constraint WHERE conrelid = {sql.regclass(table)} "
        f"AND conname = {sql.literal(rule)})"
    )
    needs_rule = f"{nullable} AND NOT {has_rule}"
    lock_tables(table, when=needs_rule)
    sql.do_when(needs_rule, f"{alter} ADD CONSTRAINT {rule} CHECK ({present}) NOT VALID")
    with sql.autocommit():
        sql.do_when(has_rule, f"{alter} VALIDATE CONSTRAINT {rule}")
    lock_tables(table, when=f"{nullable} OR {has_rule}")
    required = ", ".join(f"ALTER COLUMN {column} SET NOT NULL" for column in names.values())
    sql.do_when(nullable, f"{alter} {required}")
    sql.do_when(has_rule, f"{alter} DROP CONSTRAINT {rule}")


def beyond_repair(repairs: Mapping[str, str]) -> str:
    """Render the condition for rows with a NULL that nothing can stand for."""
    return " OR ".join(
        f"{sql.name(column)} IS NULL" for column, repair in repairs.items() if repair == column
    )


def comment_column(table: str, column: str, comment: str) -> None:
    sql.emit(f"COMMENT ON COLUMN {sql.name(f'{table}.{column}')} IS {sql.literal(comment)}")


def _definition(column: sa.Column[Any]) -> str:
    return str(CreateColumn(column).compile(dialect=sql.POSTGRESQL))


def _default(column: sa.Column[Any]) -> str:
    _, _, default = _definition(column).partition(" DEFAULT ")
    return default.removesuffix(" NOT NULL")


def _has_column(table: str, column: str, *, also: str = "") -> str:
    return (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname = {sql.literal(column)} AND NOT attisdropped{also})"
    )


def _incomplete(table: str, columns: Sequence[sa.Column[Any]]) -> str:
    """Render the condition that one of them is missing, or lacks the default that it should have."""
    defaults = sql.literals([column.name for column in columns if column.server_default is not None] or [""])
    return (
        f"(SELECT count(*) FROM pg_attribute WHERE attrelid = {sql.regclass(table)} AND NOT attisdropped "
        f"AND attname IN ({sql.literals([column.name for column in columns])}) "
        f"AND (atthasdef OR attname NOT IN ({defaults}))) < {len(columns)}"
    )


def _refuse_other_types(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    for family, condition in FAMILIES.items():
        names = [column.name for column in columns if family_of(column.type) == family]
        if not names:
            continue
        wrong = (
            "(SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute "
            f"WHERE attrelid = {sql.regclass(table)} AND attname IN ({sql.literals(names)}) "
            f"AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE {condition}))"
        )
        sql.refuse_when(
            f"{wrong} IS NOT NULL",
            f"{table} has {{wrong}}, but that must hold {family}: rename it or change its type, "
            "then run the same again",
            wrong=wrong,
        )


def family_of(kind: sa.types.TypeEngine[Any]) -> str | None:
    families: list[tuple[type[sa.types.TypeEngine[Any]], str]] = [
        (sa.Boolean, "booleans"),
        (sa.Integer, "integers"),
        (sa.DateTime, "times"),
        (sa.String, "text"),
    ]
    return next((name for base, name in families if isinstance(kind, base)), None)
