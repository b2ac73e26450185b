"""An env.py as `alembic init` writes it, one transaction a revision."""

from alembic import context
from sqlalchemy import engine_from_config, pool

section = context.config.get_section(context.config.config_ini_section, {})
with engine_from_config(section, prefix="sqlalchemy.", poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
