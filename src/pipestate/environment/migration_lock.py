"""The migration lock, in anybody's env.py: one migration at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import Connection

from pipestate.ddl.postgresql.locks import assert_lock_held, one_migration_at_a_time

_HELD = "pipestate_migration_lock"


@contextmanager
def hold_migration_lock(migration: MigrationContext) -> Iterator[None]:
    """Hold the migration lock around a run; where it is held already, do nothing.

    Inside a transaction that somebody else began it is a lock of that transaction, and ends with it; else it is
    one of the session, given back at the end. On SQLite the file has one writer anyway.
    """
    connection = migration.connection
    if connection is None or migration.dialect.name != "postgresql" or migration.opts.get(_HELD):
        yield
        return
    migration.opts[_HELD] = True
    try:
        with _held(connection):
            yield
    finally:
        migration.opts[_HELD] = False


def assert_lock(migration: MigrationContext, step: RevisionStep | None = None) -> None:
    """Refuse to go on where a pooler has given the connection another session, without the lock."""
    del step
    if migration.dialect.name == "postgresql":
        assert migration.connection is not None
        assert_lock_held(migration.connection)


@contextmanager
def _held(connection: Connection) -> Iterator[None]:
    inside = connection.in_transaction()
    with one_migration_at_a_time(connection, of_transaction=inside):
        if not inside:
            connection.rollback()  # Alembic begins its own
        yield
