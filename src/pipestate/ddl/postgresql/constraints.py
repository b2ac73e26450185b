"""Constraints: added NOT VALID under a lock of milliseconds, then validated beside the traffic."""

from collections.abc import Mapping

from pipestate.ddl import objects, sql
from pipestate.ddl.postgresql.archive import parents
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.partitions import (
    add_to_partitions,
    is_partitioned,
    no_steps_for_partitions,
    validate_partitions,
)


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    """Add named CHECKs. Rows that break one are found first: nothing is changed when there are any."""
    for name, condition in checks.items():
        refuse_rows(
            table,
            f"NOT ({condition})",
            f"would break the rule {name} ({condition})",
            when=f"NOT {_has_constraint(table, name)}",
        )
    _add(table, {name: f"CHECK ({condition}) NOT VALID" for name, condition in checks.items()}, lock=[table])
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
    """Add a named foreign key, unless the table has one of its own on that column to that target."""
    child, parent = sql.name(column), sql.name(target_column)
    action = {"CASCADE": "c", "SET NULL": "n"}[on_delete]
    missing = (
        f"NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] "
        f"WHERE conrelid = {sql.regclass(table)} AND contype = 'f' AND attname = {sql.literal(column)} "
        f"AND confrelid = {sql.regclass(target)} AND confdeltype = '{action}')"
    )
    refuse_rows(
        table,
        f"{child} IS NOT NULL AND NOT EXISTS (SELECT FROM {sql.name(target)} p WHERE p.{parent} = t.{child})",
        f"point at no row of {target} ({column})",
        when=missing,
    )
    sql.refuse_when(
        f"EXISTS (SELECT FROM pg_constraint WHERE conrelid = {sql.regclass(table)} AND contype = 'f' "
        f"AND conname = {sql.literal(name)} "
        f"AND (confrelid <> {sql.regclass(target)} OR confdeltype <> '{action}'))",
        f"foreign key {name} on {table} exists with another definition: {{actual}}; wanted: "
        f"({column}) to {target}({target_column}) on delete {on_delete.lower()}. Drop it, then run the same again",
        actual=f"(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {sql.regclass(table)} "
        f"AND conname = {sql.literal(name)})",
    )
    definition = f"FOREIGN KEY ({child}) REFERENCES {sql.name(target)} ({parent}) ON DELETE {on_delete}"
    if sql.is_offline() and not partitions:
        sql.refuse_when(f"{missing} AND {is_partitioned(table)}", no_steps_for_partitions(table))
    elif sql.is_offline() or sql.holds(is_partitioned(table)):
        _add_by_partition(table, name, definition, target, f"{missing} AND {is_partitioned(table)}")
    _add(table, {name: f"{definition} NOT VALID"}, lock=[table, target], missing={name: missing})
    validate(table, name, required=False)


def _add_by_partition(table: str, name: str, definition: str, target: str, needed: str) -> None:
    """Give each partition the foreign key, validate it there, then let the table take them over."""
    lock_tables(table, target, when=needed)
    add_to_partitions(table, name, definition, needed)
    with sql.autocommit():
        validate_partitions(table, name, needed)
    lock_tables(table, target, when=needed)
    sql.do_when(
        needed,
        f"ALTER TABLE {sql.name(table)} ADD CONSTRAINT {sql.name(name)} {definition}",
        objects.remember("constraint", f"{table}.{name}"),
    )


def drop_constraint(table: str, name: str) -> None:
    lock_tables(table, also=parents(table))
    sql.do_when(
        f"{sql.regclass(table)} IS NOT NULL AND {objects.is_ours('constraint', f'{table}.{name}')}",
        f"ALTER TABLE {sql.name(table)} DROP CONSTRAINT IF EXISTS {sql.name(name)}",
    )
    sql.emit(objects.forget("constraint", f"{table}.{name}"))


def refuse_rows(table: str, condition: str, what: str, *, when: str = "true") -> None:
    """Stop, before anything is changed, where rows would break a rule. The row is `t` in SQL."""
    count = f"(SELECT count(*) FROM {sql.name(table)} t WHERE {condition})"
    sql.do(
        f"""  IF NOT ({when}) THEN RETURN; END IF;
  bad := {count};
  IF bad > 0 THEN
    {
            sql.refusal(
                f"{{n}} rows of {table} {what}. Fix them, then run the same again; to see them: "
                f"SELECT * FROM {table} t WHERE {condition}",
                {"n": "bad"},
            )
        }
  END IF;""",
        "  bad bigint;",
    )


def validate(table: str, *names: str, required: bool = True) -> None:
    """Validate constraints without blocking writers; in autocommit, so that nothing else is held meanwhile."""
    relevant = f"conrelid = {sql.regclass(table)} AND conname IN ({sql.literals(names)})"
    with sql.autocommit():
        sql.do(
            f"""  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE {relevant} AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} ")} || todo; END IF;""",
            "  todo text;",
        )
        done = f"(SELECT count(*) FROM pg_constraint WHERE {relevant} AND convalidated)"
        sql.break_off_unless(
            f"{done} = {len(names)}"
            if required
            else f"NOT EXISTS (SELECT FROM pg_constraint WHERE {relevant} AND NOT convalidated)"
        )


def _has_constraint(table: str, name: str) -> str:
    return (
        f"EXISTS (SELECT FROM pg_constraint WHERE conrelid = {sql.regclass(table)} "
        f"AND conname = {sql.literal(name)})"
    )


def _add(
    table: str,
    definitions: Mapping[str, str],
    *,
    lock: list[str],
    missing: Mapping[str, str] | None = None,
) -> None:
    missing = missing or {name: f"NOT {_has_constraint(table, name)}" for name in definitions}
    lock_tables(*lock, when=" OR ".join(missing.values()))
    for name, definition in definitions.items():
        sql.do_when(
            missing[name],
            f"ALTER TABLE {sql.name(table)} ADD CONSTRAINT {sql.name(name)} {definition}",
            objects.remember("constraint", f"{table}.{name}"),
        )
