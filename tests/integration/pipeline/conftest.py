"""A pipeline for each test of what works on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import Connection

from alembics import Chain
from bed import Database, Postgres, Sqlite
from counted_site import fill_sites
from stuck_sites import Pipeline


def fill(database: Database) -> None:
    Chain(database).upgrade("0005")


@pytest.fixture
def pipeline(bed: Postgres | Sqlite, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    database = bed.copy_of("expanded", fill)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        yield Pipeline(database, tmp_path, redis)
    bed.drop(database)


@pytest.fixture
def pg_pipeline(postgres: Postgres, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    database = postgres.copy_of("expanded", fill)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        yield Pipeline(database, tmp_path, redis)
    postgres.drop(database)


@pytest.fixture
def sites(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("counters", fill_sites)
    yield database
    bed.drop(database)


@pytest.fixture
def pg_sites(postgres: Postgres) -> Iterator[Database]:
    database = postgres.copy_of("counters", fill_sites)
    yield database
    postgres.drop(database)


@pytest.fixture
def conn(sites: Database) -> Iterator[Connection]:
    with sites.begin() as connection:
        yield connection
