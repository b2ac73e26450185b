"""An env.py after Alembic's template multidb, with one database in its list."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine

guard(context)

for name in context.config.get_main_option("databases").split(","):
    with create_engine(
        context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool
    ).connect() as connection:
        transaction = connection.begin()
        try:
            context.configure(connection=connection, upgrade_token=f"{name}_upgrades")
            context.run_migrations(engine_name=name)
            transaction.commit()
        except:
            transaction.rollback()
            raise
