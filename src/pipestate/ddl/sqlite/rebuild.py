"""A table rebuilt: SQLite has no ALTER for constraints, defaults and NOT NULL."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.sqlite import look


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
    checks = look.inspector().get_check_constraints(table)
    nameless = [
        sa.CheckConstraint(sa.text(check["sqltext"]))
        for check in checks
        if check["name"] is None and not gone.search(check["sqltext"])
    ]
    attached = look.attached(table)
    for name in look.indexes(table):
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
        if name not in look.attached(table) and not gone.search(statement):
            sql.emit(statement)


def refuse_rows(table: str, condition: str, what: str) -> None:
    count = look.scalar(f"SELECT count(*) FROM {sql.name(table)} WHERE {condition}")
    if count:
        raise MigrationError(
            f"{count} rows of {table} {what}. Mend them, then run the same again; to see them: "
            f"SELECT * FROM {table} WHERE {condition}"
        )
