"""An env.py with a version table of its own, in a schema of its own."""

from alembic import context
from sqlalchemy import engine_from_config

SCHEMA = "billing"


def run() -> None:
    section = context.config.get_section(context.config.config_ini_section, {})
    with engine_from_config(section).connect() as connection:
        context.configure(
            connection=connection,
            version_table="billing_version",
            version_table_schema=SCHEMA,
        )
        with context.begin_transaction():
            context.run_migrations()


run()
