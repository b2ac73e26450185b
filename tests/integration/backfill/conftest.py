"""Tables to be filled."""

from pathlib import Path

import pytest

from backfilled import Orders
from bed import Database


@pytest.fixture
def orders(database: Database, tmp_path: Path) -> Orders:
    return Orders(database, tmp_path)


@pytest.fixture
def pg_orders(pg: Database, tmp_path: Path) -> Orders:
    return Orders(pg, tmp_path)
