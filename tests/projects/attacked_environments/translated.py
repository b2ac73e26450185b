"""An env.py in which SQLAlchemy puts every table without a schema into that of a tenant."""

from alembic import context
from sqlalchemy import create_engine

url = context.config.get_main_option("sqlalchemy.url")
with create_engine(url).connect() as connection:
    translated = connection.execution_options(schema_translate_map={None: "tenant"})
    context.configure(connection=translated, version_table_schema="public")
    with context.begin_transaction():
        context.run_migrations()
