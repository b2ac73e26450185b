"""Writes that are tried on the clone: what worked before the revisions and fails after them."""

import pytest

from pipestate.rehearse.clone import tables_of
from pipestate.rehearse.writes import Writes, try_after, try_before
from support.servers import Database

ORDERS = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customers, "
    "status text NOT NULL, old_status text, total numeric DEFAULT 0)",
    "INSERT INTO customers VALUES (1, 'it''s \\ ')",
    "INSERT INTO orders (customer, status, old_status) SELECT 1, 'new', 'x' FROM generate_series(1, 3)",
)
AUDIT = (
    "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF new.old_status = 'y' THEN RAISE NOTICE 'y'; END IF; RETURN new; END $$",
    "CREATE TRIGGER audit BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION audit()",
)


@pytest.fixture
def orders(pg: Database) -> Database:
    pg.run(*ORDERS)
    return pg


def tried(database: Database, *revision: str) -> Writes:
    before = try_before(database.url, tables_of(database.url))
    database.run(*revision)
    counted = database.rows("SELECT count(*), max(id) FROM orders")
    found = try_after(database.url, before)
    assert database.rows("SELECT count(*), max(id) FROM orders") == counted  # all of it was rolled back
    return found


def broken(found: Writes) -> dict[tuple[str, str], str]:
    return {(each.table, each.act): each.error for each in found.broken}


@pytest.mark.parametrize(
    "revision",
    [
        "ALTER TABLE orders DROP COLUMN old_status",
        "ALTER TABLE orders RENAME COLUMN old_status TO _pipestate_7_0",
    ],
)
def test_a_trigger_that_names_a_dropped_column_breaks_every_write(orders: Database, revision: str) -> None:
    orders.run(*AUDIT)
    found = tried(orders, revision)
    assert found.tried == 2
    assert list(broken(found)) == [("orders", "UPDATE"), ("orders", "INSERT")]
    for error in broken(found).values():
        assert 'record "new" has no field "old_status" (PL/pgSQL function' in error


@pytest.mark.parametrize(
    ("revision", "acts", "error"),
    [
        ("ALTER TABLE orders ADD COLUMN kind text NOT NULL DEFAULT 'a'; ALTER TABLE orders ALTER kind DROP DEFAULT", "INSERT", "kind"),
        ("ALTER TABLE orders ADD CHECK (status <> 'new') NOT VALID", "UPDATE INSERT", "check constraint"),
        ("ALTER TABLE orders DROP COLUMN total, ADD COLUMN total numeric GENERATED ALWAYS AS (1) STORED",
         "UPDATE INSERT", "total"),
        ("CREATE RULE keep AS ON DELETE TO orders DO INSTEAD NOTHING", "DELETE", "it writes no row any more"),
        ("CREATE TABLE gone AS SELECT 1 AS id; DELETE FROM orders WHERE id = 3", "", ""),
        ("ALTER TABLE orders DROP COLUMN old_status", "", ""),
        ("DROP TABLE orders; CREATE TABLE orders (id int)", "", ""),
        ("ALTER TABLE orders RENAME TO all_orders; CREATE VIEW orders AS SELECT * FROM all_orders", "", ""),
        ("ALTER TABLE orders RENAME TO all_orders; CREATE VIEW orders AS SELECT DISTINCT * FROM all_orders",
         "UPDATE INSERT DELETE", "view"),
    ],
)  # fmt: skip
def test_what_a_revision_breaks(orders: Database, revision: str, acts: str, error: str) -> None:
    found = broken(tried(orders, revision))
    assert [act for _, act in found] == acts.split()
    assert all(error in each for each in found.values())


def test_a_row_that_others_refer_to_is_tried_up_to_its_keys(orders: Database) -> None:
    """It cannot be deleted before; that its trigger fails is found."""
    orders.run(
        "CREATE FUNCTION named() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF old.name = '' THEN RETURN NULL; END IF; RETURN old; END $$",
        "CREATE TRIGGER named BEFORE DELETE ON customers FOR EACH ROW EXECUTE FUNCTION named()",
        "CREATE TRIGGER named_later AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION named()",
    )
    found = broken(tried(orders, "ALTER TABLE customers DROP COLUMN name"))
    assert 'record "old" has no field "name"' in found["customers", "DELETE"]
    assert ("customers", "UPDATE") not in found


def test_tables_without_a_row_are_named_and_partitions_are_written_through_their_table(pg: Database) -> None:
    pg.run(
        "CREATE TABLE orders (id int, at date, note text) PARTITION BY RANGE (at)",
        "CREATE TABLE orders_2026 PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "CREATE TABLE nothing (id int)",
        "INSERT INTO orders VALUES (1, '2026-05-05', NULL)",
    )
    found = tried(pg, "ALTER TABLE orders ADD CHECK (note IS NOT NULL) NOT VALID")
    assert (found.tried, found.empty) == (1, ("nothing",))
    assert list(broken(found)) == [("orders", "UPDATE"), ("orders", "INSERT")]
