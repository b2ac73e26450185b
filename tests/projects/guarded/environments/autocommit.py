"""An env.py whose connection commits every statement by itself."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine

guard(context)

url = context.config.get_main_option("sqlalchemy.url")
engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
