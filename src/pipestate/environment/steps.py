"""What surrounds each revision, whoever wrote it."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from alembic.runtime.migration import MigrationContext, MigrationStep

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError

Before = Callable[[MigrationContext, MigrationStep], None]


def wrap_steps(migration: MigrationContext, before: Before) -> None:
    """Have `before` run at the start of each revision's transaction."""
    steps = migration._migrations_fn
    if steps is None:
        return

    def wrapped(heads: Any, context: Any) -> Iterator[Any]:
        for step in steps(heads, context):
            step.migration_fn = _wrapped(migration, step, before)
            yield step

    migration._migrations_fn = wrapped


def _wrapped(migration: MigrationContext, step: MigrationStep, before: Before) -> Callable[..., None]:
    change = step.migration_fn

    @wraps(change)
    def run_step(**arguments: Any) -> None:
        revision = getattr(step, "revision", None)
        sql.begin_parts(revision.revision if revision is not None else "")
        before(migration, step)
        broken = _broken_references(migration)
        change(**arguments)
        if fresh := _broken_references(migration) - broken:
            table, rowid, parent, _ = next(iter(fresh))
            raise MigrationError(
                f"row {rowid} of {table} would point at no row of {parent}: nothing was changed"
            )

    return run_step


def _broken_references(migration: MigrationContext) -> set[tuple[Any, ...]]:
    """On SQLite, with foreign keys off for the rebuilds: find what they would have refused."""
    if migration.dialect.name != "sqlite" or migration.as_sql or migration.connection is None:
        return set()
    rows = migration.connection.exec_driver_sql("PRAGMA foreign_key_check")
    return {tuple(row) for row in rows}
