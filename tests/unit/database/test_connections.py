"""The engine is chosen by the name of its dialect, whatever knows that name."""

import pytest
from sqlalchemy import URL, create_engine

from pipestate.core.errors import ConfigError
from pipestate.database import postgresql, sqlite
from pipestate.database.connections import engine_of
from pipestate.migration.engine import migration_engine_of
from pipestate.migration.failure import MigrationError

UNKNOWN = "pipestate works with PostgreSQL and SQLite, not with mysql"


def test_connections_urls_and_names_choose_the_same() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        assert (
            engine_of(connection)
            is engine_of(engine)
            is engine_of(engine.url)
            is engine_of("sqlite")
            is sqlite
        )
    assert engine_of(URL.create("postgresql+asyncpg")) is postgresql


def test_an_engine_that_nobody_knows_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=f"^{UNKNOWN}$"):
        engine_of("mysql")
    with pytest.raises(MigrationError, match=f"^{UNKNOWN}$"):
        migration_engine_of("mysql")
