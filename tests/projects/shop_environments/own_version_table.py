"""An env.py with a version table of its own, in a schema of its own."""

from alembic import context
from pipestate.environment import guard
from sqlalchemy import create_engine, text

guard(context)

with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS shop"))
    connection.commit()
    context.configure(
        connection=connection,
        version_table="shop_version",
        version_table_schema="shop",
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()
