"""An env.py as `alembic init -t async` writes it, with the one line and a transaction a revision."""

import asyncio

from alembic import context
from pipestate.environment import guard
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import async_engine_from_config

guard(context)


def run_migrations(connection) -> None:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def connect() -> None:
    section = context.config.get_section(context.config.config_ini_section, {})
    engine = async_engine_from_config(section, prefix="sqlalchemy.", poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run_migrations)
    await engine.dispose()


asyncio.run(connect())
