"""One engine for many databases: each reader sees the one that it was given, whoever else connects meanwhile."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestate.core.errors import Unreachable
from pipestate.database.connections import reader, shared_engine
from support.servers import Database, Postgres


@pytest.fixture
def three(postgres: Postgres) -> Iterator[list[Database]]:
    databases = [postgres.create() for _ in range(3)]
    yield databases
    for database in databases:
        postgres.drop(database)


def test_each_reader_sees_its_own_database(three: list[Database]) -> None:
    engine = shared_engine()

    def name(database: Database) -> object:
        with reader(database.url, engine=engine) as connection:
            return connection.exec_driver_sql("SELECT current_database()").scalar_one()

    databases = three * 8
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(name, databases)) == [database.url.database for database in databases]


def test_one_that_cannot_be_reached_is_named_and_the_next_one_answers(three: list[Database]) -> None:
    engine, gone = shared_engine(), three[0].url.set(database="gone")
    with (
        pytest.raises(Unreachable, match=r"cannot reach \S+gone\S*: .*does not exist"),
        reader(gone, engine=engine),
    ):
        pass
    with reader(three[1].url, engine=engine) as connection:
        assert connection.exec_driver_sql("SELECT current_database()").scalar_one() == three[1].url.database
