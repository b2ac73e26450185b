"""The test bed itself: real servers, as promised."""

import re

import pytest
from redis import Redis

from support.servers import Database, Postgres, postgres_server


def test_postgresql_is_a_real_server(pg: Database) -> None:
    assert re.match(r"PostgreSQL 1\d\.\d", str(pg.value("SELECT version()")))


def test_redis_is_a_real_server(redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        assert redis.ping()
        assert redis.info("server")["redis_version"]


def test_a_test_gets_a_copy_of_a_template(postgres: Postgres) -> None:
    def fill(database: Database) -> None:
        database.run("CREATE TABLE t AS SELECT 1 AS x")

    first, second = (postgres.copy_of("bed", fill) for _ in range(2))
    first.run("UPDATE t SET x = 2")
    assert second.value("SELECT x FROM t") == 1
    postgres.drop(first)
    postgres.drop(second)


def test_an_engine_that_was_requested_and_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIPESTATE_TEST_DATABASE_URL", raising=False)
    monkeypatch.setenv("PIPESTATE_TEST_POSTGRES", "cloud")
    with pytest.raises(ValueError, match="container or embedded"), postgres_server():
        pass
