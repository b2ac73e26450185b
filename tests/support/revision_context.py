"""A revision without others: what its helpers see, online and in a script."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

from alembic.migration import MigrationContext
from alembic.operations import Operations

from pipestate.migration.run import run_of
from support.servers import Database


@contextmanager
def revision(database: Database, script: StringIO | None = None, *, down: bool = False) -> Iterator[None]:
    """What a revision sees, online or, with a buffer, offline; up, or down."""
    if script is not None:
        context = MigrationContext.configure(
            dialect_name="postgresql", opts={"as_sql": True, "output_buffer": script, "literal_binds": True}
        )
        run_of(context).is_upgrade = not down
        with Operations.context(context), context.begin_transaction(_per_migration=True):
            context.impl.emit_begin()
            yield
            context.impl.emit_commit()
        return
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"transaction_per_migration": True})
        run_of(context).is_upgrade = not down
        with Operations.context(context), context.begin_transaction(_per_migration=True):
            yield
