"""An env.py as `alembic init` writes it: one transaction for the run."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import engine_from_config, pool

guard(context)

section = context.config.get_section(context.config.config_ini_section, {})
with engine_from_config(section, prefix="sqlalchemy.", poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
