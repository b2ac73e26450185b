"""What is read of a real database: every kind of object, and rows whatever their order."""

from pipestate.rehearse.contents import differences, read_contents
from support.servers import Database

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
    "CREATE SEQUENCE numbers",
    "SELECT setval('numbers', 500)",
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
    "ALTER TABLE orders FORCE ROW LEVEL SECURITY": "table orders was",
    "ALTER TABLE orders REPLICA IDENTITY FULL": "replica identity of orders is new",
    "ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_pkey": "replica identity of orders was `full`",
    "ALTER SEQUENCE numbers INCREMENT 5": "sequence numbers was",
    "SELECT setval('numbers', 499)": "sequence numbers was at 500, is at 499",
    "ALTER SEQUENCE numbers RESTART": "sequence numbers was at 499, is at its start",
    "COMMENT ON INDEX orders_pkey IS 'why'": "comment on index orders_pkey is new",
    "REVOKE EXECUTE ON FUNCTION one() FROM PUBLIC": "rights on function one() was",
    "ALTER TABLE shop.lines SET UNLOGGED": "table shop.lines was",
    "UPDATE orders SET note = 'z' WHERE id = 2": "table orders has as many rows, but different ones",
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
        # From 18 on NOT NULL is a constraint, too; the sequence of an identity column is unlogged with its table.
        relevant = [each for each in found if "_not_null" not in each and "lines_id_seq" not in each]
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
    assert list(differences(before, read_contents(database.url))) == [
        "table t has as many rows, but different ones"
    ]


def test_a_sequence_that_is_ahead_has_skipped_numbers_and_hidden_columns_are_dropped(pg: Database) -> None:
    pg.run(
        "CREATE SEQUENCE numbers", "CREATE TABLE t (id integer, old text)", "INSERT INTO t VALUES (1, 'x')"
    )
    before = read_contents(pg.url)
    pg.run("SELECT nextval('numbers')")
    assert list(differences(before, read_contents(pg.url))) == []
    pg.run("ALTER TABLE t RENAME old TO _pipestate_12_0", "ALTER TABLE t ADD _pipestate_12_1 boolean")
    assert list(differences(before, read_contents(pg.url), rows=False)) == ["column t.old is gone"]
    pg.run("ALTER TABLE t DROP _pipestate_12_0, DROP _pipestate_12_1")
    dropped = read_contents(pg.url)
    pg.run("ALTER TABLE t ADD _pipestate_12_1 boolean DEFAULT true")
    assert list(differences(dropped, read_contents(pg.url))) == []


def test_an_index_on_a_hidden_column_is_the_same_under_another_contracts_number(pg: Database) -> None:
    pg.run("CREATE TABLE t (id integer, _pipestate_1_1 text)", "CREATE INDEX by_old ON t (_pipestate_1_1)")
    before = read_contents(pg.url)
    pg.run("ALTER TABLE t RENAME _pipestate_1_1 TO _pipestate_2_1")
    assert list(differences(before, read_contents(pg.url))) == []
