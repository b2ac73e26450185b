"""A database with the ledger and nothing else."""

import pytest

from pipestate.ledger.install import install
from support.servers import Database


@pytest.fixture
def ledger(database: Database) -> Database:
    with database.begin() as connection:
        install(connection)
    return database


@pytest.fixture
def pg_ledger(pg: Database) -> Database:
    with pg.begin() as connection:
        install(connection)
    return pg
