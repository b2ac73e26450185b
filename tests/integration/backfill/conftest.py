"""Tables to be filled, in databases that have a ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.backfills import Orders, install_in
from support.servers import Postgres, Sqlite


@pytest.fixture
def orders(bed: Postgres | Sqlite, tmp_path: Path) -> Iterator[Orders]:
    database = bed.copy_of("ledger", install_in)
    yield Orders(database, tmp_path)
    bed.drop(database)


@pytest.fixture
def pg_orders(postgres: Postgres, tmp_path: Path) -> Iterator[Orders]:
    database = postgres.copy_of("ledger", install_in)
    yield Orders(database, tmp_path)
    postgres.drop(database)
