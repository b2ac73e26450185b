"""What is read of a real database: every kind of object, and rows whatever their order."""

from bed import Database
from pipestate.rehearse.contents import differences, read_contents

EVERYTHING = (
    "CREATE SCHEMA shop",
    "CREATE TYPE state AS ENUM ('open', 'paid')",
    "CREATE TABLE orders (id integer PRIMARY KEY, state state NOT NULL DEFAULT 'open', note text)",
    "CREATE TABLE shop.lines (id bigint GENERATED ALWAYS AS IDENTITY, of integer REFERENCES orders)",
    "CREATE INDEX by_note ON orders (note)",
    "CREATE VIEW open_orders AS SELECT id FROM orders WHERE state = 'open'",
    "CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER keeps BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION keep()",
    "CREATE POLICY everybody ON orders USING (true)",
    "INSERT INTO orders VALUES (1, 'open', 'x'), (2, 'paid', NULL)",
)
CHANGES = {
    "ALTER TYPE state ADD VALUE 'lost'": "type state was",
    "ALTER TABLE orders ALTER note SET NOT NULL": "column orders.note was",
    "ALTER TABLE orders ALTER note SET DEFAULT 'y'": "column orders.note was",
    "DROP INDEX by_note": "index by_note is gone",
    "CREATE OR REPLACE VIEW open_orders AS SELECT id FROM orders": "view open_orders was",
    "CREATE OR REPLACE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 2'": "function one() was",
    "ALTER TABLE orders DISABLE TRIGGER keeps": "trigger orders.keeps was",
    "DROP POLICY everybody ON orders": "policy orders.everybody is gone",
    "ALTER TABLE shop.lines DROP CONSTRAINT lines_of_fkey": "constraint shop.lines.lines_of_fkey is gone",
    "GRANT SELECT ON orders TO PUBLIC": "table orders was",
    "COMMENT ON COLUMN orders.note IS 'why'": "column orders.note was",
    "UPDATE orders SET note = 'z' WHERE id = 2": "table orders has as many rows, and others",
    "DELETE FROM orders WHERE id = 2": "table orders had 2 rows, has 1",
}


def test_each_change_is_seen_and_nothing_else(pg: Database) -> None:
    pg.run(*EVERYTHING)
    for change, said in CHANGES.items():
        if change.startswith("ALTER TABLE orders ALTER note SET NOT"):
            pg.run("UPDATE orders SET note = '' WHERE note IS NULL")
        before = read_contents(pg.url)
        pg.run(change)
        found = list(differences(before, read_contents(pg.url)))
        relevant = [each for each in found if "_not_null" not in each]  # from 18 on it is a constraint, too
        assert len(relevant) == 1, (change, found)
        assert relevant[0].startswith(said), (change, found)


def test_neither_the_order_of_rows_nor_that_of_columns_is_a_difference(database: Database) -> None:
    database.run("CREATE TABLE t (a integer, b text)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    before = read_contents(database.url)
    database.run(
        "DROP TABLE t", "CREATE TABLE t (b text, a integer)", "INSERT INTO t VALUES ('y', 2), ('x', 1)"
    )
    database.run("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)")
    assert list(differences(before, read_contents(database.url))) == []
    database.run("UPDATE t SET a = 3 WHERE a = 2")
    assert list(differences(before, read_contents(database.url))) == ["table t has as many rows, and others"]
