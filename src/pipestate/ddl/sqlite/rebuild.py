"""A table rebuilt: SQLite has no ALTER for constraints, defaults and NOT NULL."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations
from sqlalchemy.exc import DBAPIError

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.sqlite import look


@contextmanager
def rebuilt(table: str, *, without: Sequence[str] = ()) -> Iterator[BatchOperations]:
    """Rebuild by Alembic's batch mode, and keep what that loses: nameless CHECKs, triggers, indexes on expressions, counters.

    What names one of `without` (columns or constraints that are about to go) goes with it.
    """
    refuse_live_references(table)
    words = "|".join(map(re.escape, without))
    gone = re.compile(rf"\b({words})\b" if without else r"(?!)", re.IGNORECASE)
    checks = look.inspector().get_check_constraints(table)
    nameless = [
        sa.CheckConstraint(sa.text(check["sqltext"]))
        for check in checks
        if check["name"] is None and not gone.search(check["sqltext"])
    ]
    attached, counted = look.attached(table), look.counter_of(table)
    for name in look.indexes(table):
        if gone.search(attached[name]):
            sql.emit(f"DROP INDEX {sql.name(name)}")
    # Views that read the table must not be looked at while it is away.
    sql.emit("PRAGMA legacy_alter_table = ON")
    counts = {} if counted is None else {"sqlite_autoincrement": True}
    with op.batch_alter_table(
        table, recreate="always", table_args=tuple(nameless), table_kwargs=counts
    ) as batch:
        for check in checks:
            if check["name"] and check["name"] not in without and gone.search(check["sqltext"]):
                batch.drop_constraint(check["name"], type_="check")
        yield batch
    sql.emit("PRAGMA legacy_alter_table = OFF")
    for name, statement in attached.items():
        if name not in look.attached(table) and not gone.search(statement):
            sql.emit(statement)
    _count_on(table, counted)


def dropped_in_place(table: str, columns: Sequence[str]) -> bool:
    """Drop columns without a rebuild, where SQLite can, and say whether: all else stays as it was declared.

    A rebuild knows what SQLAlchemy reads of a table, which is neither a COLLATE nor an ON CONFLICT, nor STRICT.
    """
    refuse_live_references(table)
    gone = re.compile(rf"\b({'|'.join(map(re.escape, columns))})\b", re.IGNORECASE)
    sql.emit("SAVEPOINT pipestate_drop")
    try:
        for name, statement in look.indexes(table).items():
            if gone.search(statement):
                sql.emit(f"DROP INDEX {sql.name(name)}")
        for column in columns:
            sql.emit(f"ALTER TABLE {sql.name(table)} DROP COLUMN {sql.name(column)}")
    except DBAPIError:  # a constraint names it
        sql.emit("ROLLBACK TO SAVEPOINT pipestate_drop")
        sql.emit("RELEASE SAVEPOINT pipestate_drop")
        return False
    sql.emit("RELEASE SAVEPOINT pipestate_drop")
    return True


@contextmanager
def without_triggers(table: str) -> Iterator[None]:
    """Write rows without the triggers of the table: one would take its own time of the last change for everybody's."""
    triggers = look.attached(table, "'trigger'")
    for name in triggers:
        sql.emit(f"DROP TRIGGER {sql.name(name)}")
    yield
    for statement in triggers.values():
        sql.emit(statement)


def rebuild_as(table: str, created: str, attached: Mapping[str, str]) -> None:
    """Rebuild a table by a CREATE TABLE of its own, with every row; its indexes and triggers come along."""
    refuse_live_references(table)
    spare = f"pipestate_rebuilt_{table}"
    head = re.compile(r"^CREATE\s+TABLE\s+(\"[^\"]+\"|`[^`]+`|\[[^]]+\]|\S+?)(?=[\s(])", re.IGNORECASE)
    now = look.attached(table)
    counted = look.counter_of(table)
    columns = ", ".join(sql.name(name) for name in look.plain_columns(table))
    sql.emit(head.sub(lambda _: f"CREATE TABLE {sql.name(spare)}", created, count=1))
    sql.emit(f"INSERT INTO {sql.name(spare)} ({columns}) SELECT {columns} FROM {sql.name(table)}")
    sql.emit("PRAGMA legacy_alter_table = ON")
    sql.emit(f"DROP TABLE {sql.name(table)}")
    sql.emit(f"ALTER TABLE {sql.name(spare)} RENAME TO {sql.name(table)}")
    sql.emit("PRAGMA legacy_alter_table = OFF")
    for statement in {**now, **attached}.values():
        sql.emit(statement)
    _count_on(table, counted)


def _count_on(table: str, counted: int | None) -> None:
    """Have AUTOINCREMENT go on from the number that it had reached."""
    if counted is not None:
        sql.emit(f"UPDATE sqlite_sequence SET seq = {counted} WHERE name = {sql.literal(table)}")


def refuse_live_references(table: str) -> None:
    """Refuse where dropping the old table would delete, by cascade, the rows that point at it."""
    if look.scalar("PRAGMA foreign_keys") and (others := look.referring(table)):
        raise MigrationError(
            f"{table} has to be rebuilt while foreign_keys is on, which would delete the rows of {', '.join(others)} "
            "that point at it: set PRAGMA foreign_keys = OFF on the connection before the migration begins"
        )


def refuse_rows(table: str, condition: str, what: str) -> None:
    count = look.scalar(f"SELECT count(*) FROM {sql.name(table)} WHERE {condition}")
    if count:
        raise MigrationError(
            f"{count} rows of {table} {what}. Fix them, then run the same again; to see them: "
            f"SELECT * FROM {table} WHERE {condition}"
        )
