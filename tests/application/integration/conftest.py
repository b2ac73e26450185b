"""A pipeline for each test of what works on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import Connection

from support import table_queues
from support.alembic_runs import Migrations
from support.queues import QueueBed, RqBed, TableBed
from support.servers import Database, Postgres, Sqlite
from support.sites import fill_sites
from support.stuck_sites import Pipeline


def fill(database: Database) -> None:
    Migrations(database).upgrade("0005")


@contextmanager
def open_jobs(kind: str, request: pytest.FixtureRequest, directory: Path) -> Iterator[QueueBed]:
    """An empty queue of this kind."""
    if kind == "table":
        path = directory / "jobs.db"
        with table_queues.connect(str(path)) as queues:
            yield TableBed(queues, path)
        return
    with Redis.from_url(request.getfixturevalue("redis_url")) as redis:
        redis.flushall()
        yield RqBed(redis)


@pytest.fixture(params=["rq", "table"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueBed]:
    """An empty queue behind each implementation of the port."""
    with open_jobs(request.param, request, tmp_path) as bed:
        yield bed


@pytest.fixture(params=["postgresql-rq", "sqlite-rq", "postgresql-table"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on each engine, and on each implementation of the port."""
    engine, _, kind = request.param.partition("-")
    bed: Postgres | Sqlite = request.getfixturevalue("postgres" if engine == "postgresql" else "sqlite")
    yield from _pipeline(bed, kind, request, tmp_path)


@pytest.fixture
def pg_pipeline(postgres: Postgres, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    yield from _pipeline(postgres, "rq", request, tmp_path)


def _pipeline(
    bed: Postgres | Sqlite, kind: str, request: pytest.FixtureRequest, directory: Path
) -> Iterator[Pipeline]:
    database = bed.copy_of("expanded", fill)
    root = directory / "sites"
    root.mkdir()
    with open_jobs(kind, request, directory) as jobs:
        yield Pipeline(database, root, jobs)
    bed.drop(database)


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
