"""Several projects in one ini, and migrations for each dialect: each has its own place, gates and version table."""

from pathlib import Path

import pytest

from pipestate.gate import GateClosed
from support.servers import Database
from support.shop_project import Shop, open_shop


def walk(shop: Shop, table: str, first: str, last: str) -> None:
    """Go up to the closed gate, open it, go through and come back."""
    rows = f"SELECT id, moved_to FROM {table}"
    shop.upgrade(first)
    shop.database.run(f"INSERT INTO {table} VALUES (7, NULL)")
    assert shop.plan() == (first, "closed")
    with pytest.raises(GateClosed, match="all-moved: 1 row, first: 7"):
        shop.upgrade()
    assert (shop.version(), shop.database.rows(rows)) == (first, [(7, None)])
    shop.database.run(f"UPDATE {table} SET moved_to = 8")
    assert shop.plan() == (first, "open")
    shop.upgrade()
    assert table not in shop.tables()
    assert shop.plan()[0] == shop.version() == last
    shop.downgrade(first)
    assert shop.database.rows(rows) == [(7, 8)]


def test_several_histories_in_one_database(pg: Database, tmp_path: Path) -> None:
    root = open_shop(tmp_path, pg, name="histories").root
    billing, stock = (Shop(root, pg, f"{name}_version", ("--name", name)) for name in ("billing", "stock"))
    walk(billing, "invoices", "b1", "b2")
    walk(stock, "shelves", "s1", "s2")
    assert (billing.version(), stock.version()) == ("b1", "s1")


def test_migrations_of_each_dialect(database: Database, tmp_path: Path) -> None:
    root = open_shop(tmp_path, database, name="dialects").root
    walk(Shop(root, database, options=("--name", database.url.get_backend_name())), "old_notes", "n1", "n2")
