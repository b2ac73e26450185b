"""A connection through any driver, asynchronous ones included."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from support.servers import Database

T = TypeVar("T")
ASYNCHRONOUS = ("postgresql+psycopg_async", "postgresql+asyncpg", "sqlite+aiosqlite")


def connected(database: Database, driver: str, work: Callable[[Connection], T], **options: str) -> T:
    """Call `work` with a connection through the driver; what it leaves uncommitted is rolled back."""
    url = database.url.set(drivername=driver)
    if driver in ASYNCHRONOUS:
        return asyncio.run(_awaited(create_async_engine(url, poolclass=NullPool, **options), work))
    with create_engine(url, poolclass=NullPool, **options).connect() as connection:
        return work(connection)


async def _awaited(engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
    async with engine.connect() as connection:
        return await connection.run_sync(work)
