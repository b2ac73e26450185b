"""An env.py that takes a lock of its own at the start of its transaction."""

from alembic import context
from sqlalchemy import create_engine, text

engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(112233)"))
        context.run_migrations()
