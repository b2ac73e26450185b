"""The migration lock, in anybody's env.py: one migration at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.environment.engine import engine_of

_HELD = "pipestate_migration_lock"


@contextmanager
def hold_migration_lock(migration: MigrationContext) -> Iterator[None]:
    """Hold the migration lock around a run; where it is held already, do nothing.

    Inside a transaction that somebody else began it is a lock of that transaction, and ends with it; else it is
    one of the session, given back at the end. On SQLite the file has one writer anyway.
    """
    connection = migration.connection
    if connection is None or migration.opts.get(_HELD):
        yield
        return
    migration.opts[_HELD] = True
    try:
        with engine_of(migration).hold_lock(connection):
            yield
    finally:
        migration.opts[_HELD] = False


def assert_lock(migration: MigrationContext, step: RevisionStep | None = None) -> None:
    """Refuse to go on where a pooler has given the connection another session, without the lock."""
    del step
    assert migration.connection is not None
    engine_of(migration).assert_lock(migration.connection)
