"""What surrounds each revision, whoever wrote it."""

import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.ddl import sql
from pipestate.ddl.direction import note_direction
from pipestate.ddl.failure import MigrationError
from pipestate.environment.engine import engine_of

Around = Callable[[MigrationContext, RevisionStep], None]
BEGAN = "pipestate_began"


def nothing(migration: MigrationContext, step: RevisionStep) -> None:
    """Surround a revision with nothing."""
    del migration, step


def wrap_steps(migration: MigrationContext, before: Around = nothing, after: Around = nothing) -> None:
    """Have `before` and `after` run at the start and at the end of each revision, in its transaction."""
    steps = migration._migrations_fn
    if steps is None:
        return

    def wrapped(heads: Any, context: Any) -> Iterator[Any]:
        for step in steps(heads, context):
            if isinstance(step, RevisionStep):
                step.migration_fn = _wrapped(migration, step, before, after)
            yield step

    migration._migrations_fn = wrapped


def _wrapped(
    migration: MigrationContext, step: RevisionStep, before: Around, after: Around
) -> Callable[..., None]:
    change, revision = step.migration_fn, step.revision.revision

    @wraps(change)
    def run_step(**arguments: Any) -> None:
        migration.opts[BEGAN] = (revision, time.monotonic())
        sql.begin_parts(revision)
        note_direction(migration, is_upgrade=step.is_upgrade)
        before(migration, step)
        broken = _broken_references(migration)
        change(**arguments)
        _refuse_broken_references(_broken_references(migration) - broken)
        after(migration, step)

    return run_step


def _refuse_broken_references(fresh: set[tuple[Any, ...]]) -> None:
    if fresh:
        table, rowid, parent, _ = next(iter(fresh))
        raise MigrationError(f"row {rowid} of {table} would point at no row of {parent}: nothing was changed")


def _broken_references(migration: MigrationContext) -> set[tuple[Any, ...]]:
    """Find the references to no row, where the engine does not refuse them by itself."""
    if migration.as_sql or migration.connection is None:
        return set()
    return engine_of(migration).broken_references(migration.connection)
