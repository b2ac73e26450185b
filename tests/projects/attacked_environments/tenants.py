"""An env.py with the one line, that migrates a schema for each of two tenants, one after the other."""

from pathlib import Path

from alembic import context
from sqlalchemy import create_engine

from pipestate.environment import guard

guard(context)

url = context.config.get_main_option("sqlalchemy.url")
for tenant in ("public", "second"):
    if context.is_offline_mode():
        with Path(f"{tenant}.sql").open("w", encoding="utf-8") as out:
            context.configure(url=url, literal_binds=True, output_buffer=out)
            with context.begin_transaction():
                context.run_migrations(tenant=tenant)
    else:
        with create_engine(url).connect() as connection:
            connection.exec_driver_sql(f"SET search_path TO {tenant}")
            connection.commit()
            connection.dialect.default_schema_name = tenant
            context.configure(connection=connection)
            with context.begin_transaction():
                context.run_migrations(tenant=tenant)
