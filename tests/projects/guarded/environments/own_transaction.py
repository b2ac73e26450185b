"""An env.py that begins the transaction itself."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine

guard(context)

with create_engine(
    context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool
).begin() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
