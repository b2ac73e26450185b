"""Rebuilds of a table: SQLite has no ALTER for constraints, defaults and NOT NULL."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations
from sqlalchemy.exc import DBAPIError

from pipestate.database.drivers import message
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.sqlite import catalog
from pipestate.migration.sqlite.catalog import can_drop


@contextmanager
def rebuilt(table: str, *, without: Sequence[str] = ()) -> Iterator[BatchOperations]:
    """Rebuild by Alembic's batch mode, and keep the parts that it loses.

    These are nameless CHECKs, triggers, indexes on expressions, and counters. A part that names one of
    `without` (dropped columns or constraints) is dropped with it.
    """
    refuse_live_references(table)
    gone = naming(without)
    checks = catalog.inspector().get_check_constraints(table)
    nameless = [
        sa.CheckConstraint(sa.text(check["sqltext"]))
        for check in checks
        if check["name"] is None and not gone.search(check["sqltext"])
    ]
    attached, counted = catalog.attached(table), catalog.counter_of(table)
    for name in catalog.indexes(table):
        if gone.search(attached[name]):
            sql.emit(f"DROP INDEX {sql.quoted(name)}")
    # SQLite must not check the views that read the table while it is renamed.
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
        if name not in catalog.attached(table) and not gone.search(statement):
            sql.emit(statement)
    _count_on(table, counted)


def dropped_in_place(table: str, columns: Sequence[str]) -> bool:
    """Drop columns without a rebuild, if SQLite can, and return whether it did: the rest stays as declared.

    A rebuild knows only the parts of a table that SQLAlchemy reads; COLLATE, ON CONFLICT and STRICT are lost.
    """
    gone = naming(columns)
    try:
        with savepoint("pipestate_drop"):
            for name, statement in catalog.indexes(table).items():
                if gone.search(statement):
                    sql.emit(f"DROP INDEX {sql.quoted(name)}")
            for column in columns:
                sql.emit(f"ALTER TABLE {sql.quoted(table)} DROP COLUMN {sql.quoted(column)}")
    except DBAPIError as error:
        if re.search(r"error in (view|trigger) .* after drop column", message(error)):
            raise MigrationError(
                f"{', '.join(columns)} of {table} cannot be dropped while others depend on it: "
                f"{message(error)}. Drop or change them, then run the same again"
            ) from None
        return False  # a constraint names it
    return True


def naming(names: Sequence[str]) -> re.Pattern[str]:
    """Match a text that contains one of the names, in any case."""
    words = "|".join(map(re.escape, names))
    return re.compile(rf"(?<!\w)({words})(?!\w)" if names else r"(?!)", re.IGNORECASE)


def refuse_unfit_rebuild(table: str, columns: Sequence[str]) -> None:
    """Refuse columns that cannot be dropped in place, if a rebuild would lose something else."""
    if can_drop(catalog.created_as(table), columns):
        return
    refuse_live_references(table)
    if lost := catalog.lost_by_batch_mode(table):
        raise MigrationError(
            f"{table} needs a rebuild to drop {', '.join(columns)}, which another part of its definition "
            f"names, and the rebuild would lose {', '.join(lost)}: change that part first, then run the same "
            "again"
        )


@contextmanager
def without_triggers(table: str) -> Iterator[None]:
    """Write rows without the table's triggers: one could change the time of each row's last change."""
    triggers = catalog.attached(table, "'trigger'")
    for name in triggers:
        sql.emit(f"DROP TRIGGER {sql.quoted(name)}")
    yield
    for statement in triggers.values():
        sql.emit(statement)


def rebuild_as(table: str, created: str, attached: Mapping[str, str]) -> None:
    """Rebuild a table by the given CREATE TABLE, with every row; then create its attached objects.

    The old table is renamed, so that `created` runs as it was written. Other tables keep their foreign keys.
    """
    refuse_live_references(table)
    spare = sql.quoted(f"pipestate_rebuilt_{table}")
    counted = catalog.counter_of(table)
    columns = ", ".join(sql.quoted(name) for name in catalog.plain_columns(table))
    sql.emit("PRAGMA legacy_alter_table = ON")
    sql.emit(f"ALTER TABLE {sql.quoted(table)} RENAME TO {spare}")
    sql.emit(created)
    # OR ABORT: the table's own ON CONFLICT would silently replace or ignore rows.
    sql.emit(f"INSERT OR ABORT INTO {sql.quoted(table)} ({columns}) SELECT {columns} FROM {spare}")
    sql.emit(f"DROP TABLE {spare}")
    sql.emit("PRAGMA legacy_alter_table = OFF")
    for statement in attached.values():
        sql.emit(statement)
    _count_on(table, counted)


@contextmanager
def savepoint(name: str) -> Iterator[None]:
    """Undo the body on an error of the database, and raise it."""
    sql.emit(f"SAVEPOINT {name}")
    try:
        yield
    except DBAPIError:
        sql.emit(f"ROLLBACK TO SAVEPOINT {name}")
        sql.emit(f"RELEASE SAVEPOINT {name}")
        sql.emit("PRAGMA legacy_alter_table = OFF")
        raise
    sql.emit(f"RELEASE SAVEPOINT {name}")


def _count_on(table: str, counted: int | None) -> None:
    """Make AUTOINCREMENT continue from the number that it had reached."""
    if counted is not None:
        sql.emit(f"DELETE FROM sqlite_sequence WHERE name = {sql.literal(table)}")
        sql.emit(f"INSERT INTO sqlite_sequence (name, seq) VALUES ({sql.literal(table)}, {counted})")


def refuse_live_references(table: str) -> None:
    """Refuse if dropping the old table would delete or change the rows that point at it."""
    if catalog.scalar("PRAGMA foreign_keys") and (others := catalog.referring(table)):
        raise MigrationError(
            f"{table} needs a rebuild, which with foreign_keys on deletes or changes the rows of "
            f"{', '.join(others)} that point at it: set PRAGMA foreign_keys = OFF on the connection before "
            "the migration begins"
        )


def refuse_rows(table: str, condition: str, what: str) -> None:
    count = catalog.scalar(f"SELECT count(*) FROM {sql.quoted(table)} WHERE {condition}")
    if count:
        raise MigrationError(
            f"{count} rows of {table} {what}. Fix them, then run the same again; to see them: "
            f"SELECT * FROM {table} WHERE {condition}"
        )
