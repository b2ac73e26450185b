"""An env.py that says its database cannot roll DDL back."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine

guard(context)

with create_engine(
    context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool
).connect() as connection:
    context.configure(connection=connection, transactional_ddl=False)
    context.run_migrations()
