"""One env.py with migrations for each dialect: the section of the ini says which."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import engine_from_config

guard(context)

section = context.config.get_section(context.config.config_ini_section, {})
with engine_from_config(section).connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
