"""An env.py that holds a lock of the session around the run, and commits a revision at a time."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import create_engine, text

guard(context)
HELD = text(
    "INSERT INTO approvals SELECT 'locked at ' || :revision FROM pg_locks "
    "WHERE locktype = 'advisory' AND objid = 112233 AND pid = pg_backend_pid()"
)


def note(*, ctx, step, **_) -> None:
    ctx.connection.execute(HELD, {"revision": step.up_revision_id})


with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    connection.execute(text("SELECT pg_advisory_lock(112233)"))
    connection.commit()
    context.configure(connection=connection, on_version_apply=note, transaction_per_migration=True)
    try:
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.execute(text("SELECT pg_advisory_unlock(112233)"))
        connection.commit()
