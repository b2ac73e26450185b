"""The transaction of an env.py that commits by itself: it begins before the lock, and must end in a commit."""

import sys

from alembic import context as alembic_context
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, event

from pipestate.database.connections import engine_of
from pipestate.database.drivers import is_autocommit, on_sqlite
from pipestate.migration.alembic import environment_of, has_own_transactions
from pipestate.migration.failure import MigrationError

NOT_COMMITTED = (
    "env.py ended its transaction without a commit, so no revision of this run was applied: write "
    "`with context.begin_transaction():` around context.run_migrations(), and no statement on the connection before it"
)


def begin_for_env_py(migration: MigrationContext) -> None:
    """Begin the transaction that env.py commits, if it calls no begin_transaction(): the lock ends with it."""
    connection = migration.connection
    if connection is None or connection.in_transaction() or is_autocommit(connection):
        return
    if migration.impl.transactional_ddl and not has_own_transactions(migration):
        connection.begin()


def require_commit(migration: MigrationContext) -> None:
    """Refuse an env.py that ends its transaction, with the applied revisions, by a rollback."""
    connection = migration.connection
    if connection is None or not connection.in_transaction() or is_autocommit(connection):
        return
    if engine_of(migration).IS_FILE and not on_sqlite(connection, lambda driver: driver.in_transaction):
        return
    open_ = [True]

    def refuse(connection: Connection) -> None:
        inside = environment_of(alembic_context) is migration.environment_context
        if open_ and inside and sys.exc_info()[0] is None:
            open_.clear()
            connection.connection.rollback()
            raise MigrationError(NOT_COMMITTED)

    event.listen(connection, "commit", lambda _: open_.clear())
    event.listen(connection, "rollback", refuse)
