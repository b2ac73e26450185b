"""Constraints: added NOT VALID under a lock of milliseconds, then validated while writers continue."""

from collections.abc import Mapping

from pipestate.migration import objects, sql
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.locks import lock_tables, patiently
from pipestate.migration.postgresql.partitions import (
    add_to_partitions,
    is_partitioned,
    no_steps_for_partitions,
    validate_partitions,
)


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
    calls.refuse_when(
        f"k.conrelid = {sql.regclass(table)} AND k.contype = 'f' AND k.conname = {sql.literal(name)} "
        f"AND (k.confrelid <> {sql.regclass(target)} OR k.confdeltype <> '{action}')",
        f"foreign key {name} on {table} exists with another definition: {{found}}; wanted: "
        f"({column}) to {target}({target_column}) on delete {on_delete.lower()}. Drop it, then run the same again",
        "pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k",
    )
    definition = f"FOREIGN KEY ({child}) REFERENCES {sql.name(target)} ({parent}) ON DELETE {on_delete}"
    if sql.is_offline() and not partitions:
        calls.refuse_when(f"{missing} AND {is_partitioned(table)}", no_steps_for_partitions(table))
    elif sql.is_offline() or sql.holds(is_partitioned(table)):
        _add_by_partition(table, name, definition, target, f"{missing} AND {is_partitioned(table)}")
    lock_tables(table, target, when=missing)
    _add(table, name, f"{definition} NOT VALID", missing)
    validate(table, name, required=False)


def _add_by_partition(table: str, name: str, definition: str, target: str, needed: str) -> None:
    """Add the foreign key to each partition, validate it there, then let the table adopt them."""
    needed = calls.at_home(needed)
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
        objects.remember("constraint", f"{table}.{name}"),
    )
