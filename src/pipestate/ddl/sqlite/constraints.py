"""Constraints on SQLite: by a rebuild, after a look at the rows that would break them."""

from collections.abc import Mapping

import sqlalchemy as sa

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.sqlite import look
from pipestate.ddl.sqlite.rebuild import rebuilt, refuse_rows


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    known = {c["name"] for c in look.inspector().get_check_constraints(table)}
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
    for key in look.inspector().get_foreign_keys(table):
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
    if look.is_ours("constraint", f"{table}.{name}") and look.has_table(table):
        kind = (
            "check"
            if name in {c["name"] for c in look.inspector().get_check_constraints(table)}
            else "foreignkey"
        )
        with rebuilt(table, without=[name]) as batch:
            batch.drop_constraint(name, type_=kind)
    sql.emit(objects.forget("constraint", f"{table}.{name}"))
