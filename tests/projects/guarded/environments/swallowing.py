"""An env.py that logs what goes wrong, goes on, and commits."""

import logging

from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine

guard(context)

with create_engine(
    context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool
).begin() as connection:
    context.configure(connection=connection)
    try:
        with context.begin_transaction():
            context.run_migrations()
    except Exception as error:
        context.config.attributes["swallowed"] = error
        logging.getLogger(__name__).exception("migration failed")
