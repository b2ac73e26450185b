"""Hooks around each revision of any env.py, and the migration lock: one migration at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.migration.alembic import Steps, wrap_migrations
from pipestate.migration.engine import engine_of
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import run_of


@contextmanager
def hold_migration_lock(migration: MigrationContext) -> Iterator[None]:
    """Hold the migration lock around a run; if it is already held, do nothing.

    Inside a transaction that other code began, it is a lock of that transaction and ends with it. Else it is a lock
    of the session, released at the end. On SQLite the file has one writer anyway.
    """
    connection = migration.connection
    run = run_of(migration)
    if connection is None or run.is_locked:
        yield
        return
    run.is_locked = True
    try:
        with engine_of(migration).hold_lock(connection):
            yield
    finally:
        run.is_locked = False


def assert_lock(migration: MigrationContext, step: RevisionStep | None = None) -> None:
    """Refuse to continue if a pooler has given the connection another session, without the lock."""
    del step
    assert migration.connection is not None
    engine_of(migration).assert_lock(migration.connection)


# Hooks around each revision of any project.


Beside = Callable[[MigrationContext, RevisionStep], None]
Around = Callable[[MigrationContext, RevisionStep, Callable[[], None]], None]


def nothing(migration: MigrationContext, step: RevisionStep) -> None:
    """Do nothing beside a revision."""
    del migration, step


def plainly(migration: MigrationContext, step: RevisionStep, body: Callable[[], None]) -> None:
    """Run a revision without a wrapper."""
    del migration, step
    body()


def wrap_steps(
    migration: MigrationContext, before: Beside = nothing, after: Beside = nothing, around: Around = plainly
) -> None:
    """Run `before` and `after` at the start and at the end of each revision, in its transaction.

    `around` receives the work from the revision's first statement to the end of `after`.
    """

    def wrap(steps: Steps) -> Steps:
        def wrapped(heads: Any, context: Any) -> Iterator[Any]:
            for step in steps(heads, context):
                if isinstance(step, RevisionStep):
                    step.migration_fn = _wrapped(migration, step, before, after, around)
                yield step

        return wrapped

    wrap_migrations(migration, wrap)


def _wrapped(
    migration: MigrationContext, step: RevisionStep, before: Beside, after: Beside, around: Around
) -> Callable[..., None]:
    change, revision = step.migration_fn, step.revision.revision

    @wraps(change)
    def run_step(**arguments: Any) -> None:
        run = run_of(migration)
        run.revision, run.part, run.is_autocommit = revision, 0, False
        run.is_upgrade, run.began = step.is_upgrade, time.monotonic()
        run.empty_tables, run.is_evaluated = set(), None
        before(migration, step)

        def body() -> None:
            broken = _broken_references(migration)
            change(**arguments)
            _refuse_broken_references(_broken_references(migration) - broken)
            after(migration, step)

        around(migration, step, body)

    return run_step


def _refuse_broken_references(fresh: set[tuple[Any, ...]]) -> None:
    if fresh:
        table, rowid, parent, _ = next(iter(fresh))
        raise MigrationError(f"row {rowid} of {table} would point at no row of {parent}: nothing was changed")


def _broken_references(migration: MigrationContext) -> set[tuple[Any, ...]]:
    """Find the dangling references, if the engine does not refuse them by itself."""
    if migration.as_sql or migration.connection is None:
        return set()
    return engine_of(migration).broken_references(migration.connection)
