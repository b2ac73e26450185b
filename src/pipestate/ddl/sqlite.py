"""What SQLite needs done differently: no ALTER for constraints, no schemas, one writer, one transaction.

Here a revision is one transaction (BEGIN IMMEDIATE, DDL included), so helpers look first and then act.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations
from sqlalchemy.schema import CreateColumn

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import MigrationError

# --- Looking ---------------------------------------------------------------------------------------


def inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())


def has_table(table: str) -> bool:
    return inspector().has_table(table)


def has_rows(table: str) -> bool:
    return bool(scalar(f"SELECT EXISTS (SELECT 1 FROM {sql.name(table)})"))


def scalar(query: str) -> Any:
    return op.get_bind().exec_driver_sql(query).scalar()


def column_names(table: str) -> list[str]:
    return [column["name"] for column in inspector().get_columns(table)]


def column_type(table: str, column: str) -> str:
    """The type as it was declared."""
    query = "SELECT type FROM pragma_table_info(?) WHERE name = ?"
    declared = op.get_bind().exec_driver_sql(query, (table, column)).scalar()
    return str(declared or "INTEGER")


def index_definition(index: str) -> str | None:
    query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
    return op.get_bind().exec_driver_sql(query, (index,)).scalar()


def folded(statement: str) -> str:
    """Without what does not matter: case, quotes, spaces, IF NOT EXISTS, parentheses round a predicate."""
    text = re.sub(r'["`\[\]]|if not exists ', "", statement.lower())
    text = re.sub(r"\s+", "", text)
    head, where, predicate = text.partition(")where")
    return f"{head}{where}{predicate.strip('()').replace('false', '0').replace('true', '1')}"


# --- Columns and constraints -----------------------------------------------------------------------


def add_columns(addition: sa.Table) -> None:
    """Plain ADD COLUMN; a default that is no constant needs the table rebuilt."""
    known = [] if sql.is_offline() else column_names(addition.name)
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
        _mend_defaults(addition.name, adopted)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    ours = [column for column in columns if objects.is_ours_on_sqlite("column", f"{table}.{column}")]
    there = ours if sql.is_offline() else [column for column in ours if column in column_names(table)]
    if there:
        with rebuilt(table, without=there) as batch:
            for column in there:
                batch.drop_column(column)
    for column in ours:
        sql.emit(objects.forget("column", f"{table}.{column}"))


def require_not_null(table: str, repairs: Mapping[str, str]) -> None:
    if sql.is_offline():
        return
    nullable = [c["name"] for c in inspector().get_columns(table) if c["name"] in repairs and c["nullable"]]
    if not nullable:
        return
    hopeless = " OR ".join(f"{sql.name(column)} IS NULL" for column in nullable if repairs[column] == column)
    if hopeless:
        _refuse_rows(table, hopeless, f"have no value ({hopeless})")
    for column in nullable:
        sql.emit(
            f"UPDATE {sql.name(table)} SET {sql.name(column)} = {repairs[column]} "
            f"WHERE {sql.name(column)} IS NULL"
        )
    with rebuilt(table) as batch:
        for column in nullable:
            batch.alter_column(column, nullable=False)


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    known = set() if sql.is_offline() else {c["name"] for c in inspector().get_check_constraints(table)}
    missing = {name: condition for name, condition in checks.items() if name not in known}
    if not missing:
        return
    if not sql.is_offline():
        for name, condition in missing.items():
            _refuse_rows(table, f"NOT ({condition})", f"would break the rule {name} ({condition})")
    with rebuilt(table) as batch:
        for name, condition in missing.items():
            batch.create_check_constraint(name, sa.text(condition))
    for name in missing:
        sql.emit(objects.remember("constraint", f"{table}.{name}"))


def add_foreign_key(
    table: str, name: str, column: str, target: str, target_column: str, on_delete: str
) -> None:
    if sql.is_offline():
        return
    for key in inspector().get_foreign_keys(table):
        if key["constrained_columns"] == [column] and key["referred_table"] == target:
            if key["options"].get("ondelete") == on_delete:
                return
            raise MigrationError(
                f"{table}.{column} has a foreign key to {target} without on delete {on_delete.lower()}: "
                "change it, then run the same again"
            )
    child, parent = sql.name(column), sql.name(target_column)
    _refuse_rows(
        table,
        f"{child} IS NOT NULL AND {child} NOT IN (SELECT {parent} FROM {sql.name(target)})",
        f"point at no row of {target} ({column})",
    )
    with rebuilt(table) as batch:
        batch.create_foreign_key(name, target, [column], [target_column], ondelete=on_delete)
    sql.emit(objects.remember("constraint", f"{table}.{name}"))


def drop_constraint(table: str, name: str) -> None:
    if objects.is_ours_on_sqlite("constraint", f"{table}.{name}") and has_table(table):
        kind = (
            "check" if name in {c["name"] for c in inspector().get_check_constraints(table)} else "foreignkey"
        )
        with rebuilt(table, without=[name]) as batch:
            batch.drop_constraint(name, type_=kind)
    sql.emit(objects.forget("constraint", f"{table}.{name}"))


@contextmanager
def rebuilt(table: str, *, without: Sequence[str] = ()) -> Iterator[BatchOperations]:
    """Alembic's batch rebuild, keeping what it loses: nameless CHECKs, triggers, indexes on expressions.

    What names one of `without` (columns or constraints that are about to go) goes with it.
    """
    if sql.is_offline():
        with op.batch_alter_table(table, recreate="always") as batch:
            yield batch
        return
    words = "|".join(map(re.escape, without))
    gone = re.compile(rf"\b({words})\b" if without else r"(?!)", re.IGNORECASE)
    checks = inspector().get_check_constraints(table)
    nameless = [
        sa.CheckConstraint(sa.text(check["sqltext"]))
        for check in checks
        if check["name"] is None and not gone.search(check["sqltext"])
    ]
    attached = _attached(table)
    for name in indexes(table):
        if gone.search(attached[name]):
            sql.emit(f"DROP INDEX {sql.name(name)}")
    # Views that read the table must not be looked at while it is away.
    sql.emit("PRAGMA legacy_alter_table = ON")
    with op.batch_alter_table(table, recreate="always", table_args=tuple(nameless)) as batch:
        for check in checks:
            if check["name"] and check["name"] not in without and gone.search(check["sqltext"]):
                batch.drop_constraint(check["name"], type_="check")
        yield batch
    sql.emit("PRAGMA legacy_alter_table = OFF")
    for name, statement in attached.items():
        if name not in _attached(table) and not gone.search(statement):
            sql.emit(statement)


def indexes(table: str) -> dict[str, str]:
    """The table's indexes, as they were created."""
    return _attached(table, "'index'")


def _attached(table: str, kinds: str = "'index', 'trigger'") -> dict[str, str]:
    """The table's indexes and triggers, as they were created."""
    query = (
        f"SELECT name, sql FROM sqlite_master WHERE tbl_name = ? AND type IN ({kinds}) AND sql IS NOT NULL"
    )
    return {row.name: row.sql for row in op.get_bind().exec_driver_sql(query, (table,))}


def _mend_defaults(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    """Adopted booleans that hold the text 'FALSE', and columns without their default."""
    for column in columns:
        if isinstance(column.type, sa.Boolean):
            name = sql.name(column.name)
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 0 WHERE upper({name}) IN ('FALSE', 'F')")
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 1 WHERE upper({name}) IN ('TRUE', 'T')")
    actual = {column["name"]: column["default"] for column in inspector().get_columns(table)}
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


def _refuse_rows(table: str, condition: str, what: str) -> None:
    count = scalar(f"SELECT count(*) FROM {sql.name(table)} WHERE {condition}")
    if count:
        raise MigrationError(
            f"{count} rows of {table} {what}. Mend them, then run the same again; to see them: "
            f"SELECT * FROM {table} WHERE {condition}"
        )
