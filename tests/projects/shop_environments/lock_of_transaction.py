"""An env.py that takes a lock of its own at the start of its transaction, and says who still holds it."""

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
    context.configure(connection=connection, on_version_apply=note)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(112233)"))
        context.run_migrations()
