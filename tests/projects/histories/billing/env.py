"""The env.py of one of several projects in one database."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import engine_from_config

guard(context)

section = context.config.get_section(context.config.config_ini_section, {})
with engine_from_config(section).connect() as connection:
    context.configure(connection=connection, version_table="billing_version", transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
