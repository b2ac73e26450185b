"""Revisions that lose nothing, though some of them drop: none of these may be refused."""

import pytest

from attacks.destructive import sql
from support.servers import Database

HARMLESS = {
    "nothing": "pass",
    "a new table": sql("CREATE TABLE fresh (id integer)"),
    "a deferred trigger and a deferred key": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE items ALTER CONSTRAINT items_order_id_fkey DEFERRABLE INITIALLY DEFERRED",
        "INSERT INTO items VALUES (7, 7)",
        "INSERT INTO orders (id) VALUES (7)",
    ),
    "a new column": sql("ALTER TABLE orders ADD COLUMN fresh text"),
    "a new column, not null": "op.add_column('orders', sa.Column('fresh', sa.Integer, server_default='0', nullable=False))",
    "create, copy, drop, rename": sql(
        "CREATE TABLE new_items (id bigint PRIMARY KEY, order_id integer, more text)",
        "INSERT INTO new_items SELECT id, order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "create as, drop, rename": sql(
        "CREATE TABLE new_items AS SELECT * FROM items",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "rename, create, copy, drop": sql(
        "ALTER TABLE items RENAME TO old_items",
        "CREATE TABLE items (LIKE old_items INCLUDING ALL)",
        "INSERT INTO items SELECT * FROM old_items",
        "DROP TABLE old_items",
    ),
    "batch mode": (
        "with op.batch_alter_table('items', recreate='always') as batch:\n"
        "    batch.add_column(sa.Column('more', sa.Text))"
    ),
    "a column by copy": sql(
        "ALTER TABLE orders ADD COLUMN new bigint",
        "UPDATE orders SET new = id",
        "ALTER TABLE orders DROP COLUMN big",
        "ALTER TABLE orders RENAME new TO big",
    ),
    "an attribute of a type that no row has": sql(
        "ALTER TABLE places ALTER home TYPE text USING home::text", "ALTER TYPE place DROP ATTRIBUTE town"
    ),
    "renamed table": "op.rename_table('items', 'things')",
    "renamed column": "op.alter_column('orders', 'code', new_column_name='label')",
    "swapped columns": sql(
        "ALTER TABLE orders RENAME code TO x",
        "ALTER TABLE orders RENAME typed TO code",
        "ALTER TABLE orders RENAME x TO typed",
    ),
    "moved table": sql("ALTER TABLE items SET SCHEMA sales"),
    "renamed schema": sql("ALTER SCHEMA sales RENAME TO trade"),
    "temporary table": sql("CREATE TEMP TABLE t AS SELECT * FROM orders", "DROP TABLE t"),
    "temporary table of the same name": sql(
        "CREATE TEMP TABLE items AS SELECT 1 AS id", "DROP TABLE pg_temp.items"
    ),
    "empty table": sql("DROP TABLE hollow"),
    "empty table, cascade": sql("DROP TABLE hollow CASCADE"),
    "column of an empty table": sql("ALTER TABLE hollow DROP COLUMN word"),
    "type in an empty table": sql("ALTER TABLE hollow ALTER total TYPE integer"),
    "truncate an empty table": sql("TRUNCATE hollow"),
    "empty partitioned table": sql("DROP TABLE hollow_events"),
    "empty schema": sql("DROP SCHEMA void CASCADE"),
    "created and dropped": sql("CREATE TABLE t AS SELECT * FROM orders", "DROP TABLE t"),
    "added and dropped": sql(
        "ALTER TABLE orders ADD COLUMN tmp text DEFAULT 'x'",
        "UPDATE orders SET tmp = 'y'",
        "ALTER TABLE orders DROP COLUMN tmp",
    ),
    "views": sql("DROP VIEW order_notes", "CREATE VIEW order_notes AS SELECT id FROM orders"),
    "materialized view": sql("DROP MATERIALIZED VIEW summary"),
    "refresh": sql("REFRESH MATERIALIZED VIEW summary"),
    "index swap": sql(
        "CREATE INDEX new_ix ON items (order_id, id)",
        "DROP INDEX items_ix",
        "ALTER INDEX new_ix RENAME TO items_ix",
    ),
    "index concurrently": (
        "with op.get_context().autocommit_block():\n"
        "    op.execute('CREATE INDEX CONCURRENTLY new_ix ON items (order_id)')\n"
        "    op.execute('DROP INDEX CONCURRENTLY items_ix')"
    ),
    "constraints": sql(
        "ALTER TABLE items DROP CONSTRAINT items_order_id_fkey",
        "ALTER TABLE items DROP CONSTRAINT items_pkey",
    ),
    "defaults": sql(
        "ALTER TABLE orders ALTER note SET NOT NULL", "ALTER TABLE orders ALTER note SET DEFAULT ''"
    ),
    "widening numbers": sql(
        "ALTER TABLE items ALTER order_id TYPE bigint", "ALTER TABLE orders ALTER total TYPE numeric(16, 4)"
    ),
    "widening text": sql(
        "ALTER TABLE orders ALTER code TYPE varchar(90)", "ALTER TABLE orders ALTER code TYPE text"
    ),
    "widening scale": sql(
        "ALTER TABLE orders ALTER total TYPE numeric(20, 6)", "ALTER TABLE orders ALTER total TYPE numeric"
    ),
    "narrower text that fits": sql("ALTER TABLE orders ALTER code TYPE varchar(10)"),
    "integers that fit": sql("ALTER TABLE sales.invoices ALTER id TYPE smallint"),
    "time zone": sql("ALTER TABLE orders ALTER local TYPE timestamptz"),
    "date to timestamp": sql(
        "CREATE TABLE d AS SELECT current_date AS at", "ALTER TABLE d ALTER at TYPE timestamp"
    ),
    "number to text": sql("ALTER TABLE orders ALTER total TYPE text"),
    "text to integer": sql(
        "ALTER TABLE orders ALTER big TYPE text", "ALTER TABLE orders ALTER big TYPE bigint USING big::bigint"
    ),
    "json": sql("ALTER TABLE documents ALTER body TYPE jsonb"),
    "enum, recreated": sql(
        "ALTER TYPE mood RENAME TO old_mood",
        "CREATE TYPE mood AS ENUM ('sad', 'glad', 'calm')",
        "ALTER TABLE orders ALTER feeling TYPE mood USING feeling::text::mood",
        "ALTER TABLE sales.invoices ALTER feeling TYPE mood USING feeling::text::mood",
        "DROP TYPE old_mood",
    ),
    "enum, a value more": (
        "with op.get_context().autocommit_block():\n    op.execute(\"ALTER TYPE mood ADD VALUE 'calm'\")"
    ),
    "enum to text": sql("ALTER TABLE orders ALTER feeling TYPE text USING feeling::text"),
    "domain": sql("ALTER TABLE orders ALTER cost TYPE numeric(12, 4)", "DROP DOMAIN price"),
    "generated column": sql("ALTER TABLE computed DROP COLUMN twice"),
    "extension": sql("CREATE EXTENSION IF NOT EXISTS plpgsql", "ALTER EXTENSION plpgsql UPDATE"),
    "functions and triggers": sql("DROP FUNCTION drop_items()", "DROP PROCEDURE drop_cache()"),
    "sequence": sql("CREATE SEQUENCE s", "DROP SEQUENCE s"),
    "new partition": sql(
        "CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')"
    ),
    "detached partition": sql("ALTER TABLE events DETACH PARTITION events_1"),
    "to partitions": sql(
        "CREATE TABLE new_items (id integer, order_id integer) PARTITION BY HASH (id)",
        "CREATE TABLE items_p0 PARTITION OF new_items FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        "INSERT INTO new_items SELECT * FROM items",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "logged": sql("ALTER TABLE cache SET LOGGED"),
    "rewritten": sql("ALTER TABLE items ALTER order_id TYPE bigint USING order_id::bigint"),
    "clustered": sql("CLUSTER items USING items_pkey"),
    "volatile default": sql("ALTER TABLE items ADD COLUMN stamp float8 DEFAULT random()"),
    "rows deleted": sql("DELETE FROM items WHERE id > 10"),
    "rows updated": sql("UPDATE orders SET note = NULL"),
    "rolled back": "nested = op.get_bind().begin_nested()\nop.drop_table('items')\nnested.rollback()",
    "committed by text": sql(
        "COMMIT", "CREATE TABLE fresh (id integer)", "ALTER TABLE orders ADD COLUMN fresh text"
    ),
    "rows in an autocommit block": (
        "with op.get_context().autocommit_block():\n    op.execute('UPDATE items SET order_id = 1')\n    op.execute('VACUUM items')"
    ),
    "expression dropped": sql("ALTER TABLE computed ALTER twice DROP EXPRESSION"),
    "identity": sql(
        "ALTER TABLE items ALTER id ADD GENERATED BY DEFAULT AS IDENTITY",
        "ALTER TABLE items ALTER id DROP IDENTITY",
    ),
    "unlogged": sql("ALTER TABLE items SET UNLOGGED"),
    "renamed away, created empty": sql("ALTER TABLE items RENAME TO old", "CREATE TABLE items (LIKE old)"),
    "two tables swapped": sql(
        "ALTER TABLE items RENAME TO x", "ALTER TABLE cache RENAME TO items", "ALTER TABLE x RENAME TO cache"
    ),
    "attached": sql(
        "CREATE TABLE more (LIKE events)",
        "INSERT INTO more VALUES (3, '2026-05-05')",
        "ALTER TABLE events ATTACH PARTITION more FOR VALUES FROM ('2026-05-01') TO ('2026-06-01')",
    ),
    "detached, and attached again": sql(
        "ALTER TABLE events DETACH PARTITION events_1",
        "ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    ),
    "detached concurrently": (
        "with op.get_context().autocommit_block():\n"
        "    op.execute('ALTER TABLE events DETACH PARTITION events_1 CONCURRENTLY')"
    ),
    "truncate a temporary table": sql("CREATE TEMP TABLE t AS SELECT * FROM orders", "TRUNCATE t"),
    "owner": sql("ALTER TABLE items OWNER TO CURRENT_USER", "GRANT SELECT ON items TO PUBLIC"),
    "comments and statistics": sql(
        "COMMENT ON TABLE items IS 'x'", "ALTER TABLE items ALTER id SET STATISTICS 500", "ANALYZE items"
    ),
    "a column twice": sql(
        "ALTER TABLE orders ADD COLUMN t text",
        "ALTER TABLE orders DROP COLUMN t",
        "ALTER TABLE orders ADD COLUMN t text",
    ),
    "a name to text": sql("CREATE TABLE names (n name)", "ALTER TABLE names ALTER n TYPE text"),
    "a network to an address": sql("ALTER TABLE hosts ALTER address TYPE inet"),
    "more bits": sql("ALTER TABLE hosts ALTER flags TYPE bit(16) USING flags::bit(16)"),
    "money to cents": sql("ALTER TABLE hosts ALTER fee TYPE numeric(12, 2)"),
    "row security": sql(
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON items USING (id > 0)"
    ),
    "tables of a function": sql(
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS "
        "'BEGIN CREATE TABLE t AS SELECT * FROM items; DROP TABLE t; END'",
        "SELECT f()",
    ),
    "a column by copy, the old one renamed": sql(
        "ALTER TABLE orders RENAME code TO old_code",
        "ALTER TABLE orders ADD COLUMN code text",
        "UPDATE orders SET code = old_code WHERE old_code IS NOT NULL",
        "ALTER TABLE orders DROP COLUMN old_code",
        "ALTER TABLE orders ALTER code SET NOT NULL",
        "CREATE INDEX ON orders (code)",
    ),
    "a column by copy, in a block": sql(
        "DO $$ BEGIN ALTER TABLE orders ADD COLUMN new text; UPDATE orders SET new = code; "
        "ALTER TABLE orders DROP COLUMN code; ALTER TABLE orders RENAME new TO code; END $$"
    ),
    "a column of partitions by copy": sql(
        "ALTER TABLE events ADD COLUMN new bigint",
        "UPDATE events SET new = id",
        "ALTER TABLE events DROP COLUMN id",
        "ALTER TABLE events RENAME new TO id",
    ),
    "a column of an empty table, dropped and added": sql(
        "ALTER TABLE hollow DROP COLUMN word", "ALTER TABLE hollow ADD COLUMN word text"
    ),
    "create, copy, drop, rename in one text": sql(
        "CREATE TABLE new_items (LIKE items INCLUDING ALL); INSERT INTO new_items SELECT * FROM items; "
        "DROP TABLE items; ALTER TABLE new_items RENAME TO items"
    ),
    "create, copy, drop, rename in a block": sql(
        "DO $$ BEGIN CREATE TABLE new_items AS SELECT * FROM items; DROP TABLE items; "
        "ALTER TABLE new_items RENAME TO items; END $$"
    ),
    "create, copy most rows, drop, rename": sql(
        "CREATE TABLE new_items AS SELECT * FROM items WHERE id > 100",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "rows deleted, then a copy": sql(
        "DELETE FROM items WHERE id > 10",
        "CREATE TABLE new_items AS SELECT * FROM items",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "partitions rebuilt": sql(
        "CREATE TABLE new_events (id bigint, at date) PARTITION BY RANGE (at)",
        "ALTER TABLE events_1 RENAME TO old_events_1",
        "CREATE TABLE events_1 PARTITION OF new_events DEFAULT",
        "INSERT INTO new_events SELECT * FROM events",
        "DROP TABLE events",
        "ALTER TABLE new_events RENAME TO events",
    ),
    "a column by copy, in one text": sql(
        "ALTER TABLE orders ADD COLUMN new text; UPDATE orders SET new = note; "
        "ALTER TABLE orders DROP COLUMN note CASCADE; ALTER TABLE orders RENAME new TO note"
    ),
    "a column by copy, most values": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = note WHERE id > 1",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy with a cast": sql(
        "ALTER TABLE orders ADD COLUMN new integer",
        "UPDATE orders SET new = right(note, 1)::integer",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy with an expression": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = upper(note)",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy with an expression, in a block": sql(
        "DO $$ BEGIN ALTER TABLE orders ADD new text; UPDATE orders SET new = upper(note); "
        "ALTER TABLE orders DROP note CASCADE; ALTER TABLE orders RENAME new TO note; END $$"
    ),
    "a column by copy over a constant default": sql(
        "ALTER TABLE orders ADD COLUMN new text NOT NULL DEFAULT ''",
        "UPDATE orders SET new = note",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy over a volatile default": sql(
        "ALTER TABLE orders ADD COLUMN new text DEFAULT random()::text",
        "UPDATE orders SET new = upper(note)",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy, rows written after the drop": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = note",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "UPDATE orders SET code = 'x'",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy, junk rows": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = note",
        "INSERT INTO orders (id, new) VALUES (10, 'x')",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "an older column with the same values": sql(
        "ALTER TABLE orders DROP COLUMN typed", "ALTER TABLE orders RENAME rounded TO typed"
    ),
    "an older column with the same values, renamed before": sql(
        "ALTER TABLE orders RENAME typed TO gone",
        "ALTER TABLE orders RENAME rounded TO typed",
        "ALTER TABLE orders DROP COLUMN gone",
    ),
    "a column of partitions by copy, the old one renamed": sql(
        "ALTER TABLE events RENAME id TO old_id",
        "ALTER TABLE events ADD COLUMN id bigint",
        "UPDATE events SET id = old_id",
        "ALTER TABLE events DROP COLUMN old_id",
    ),
    "an inherited column by copy": sql(
        "ALTER TABLE base ADD COLUMN new text",
        "UPDATE base SET new = word",
        "ALTER TABLE base DROP COLUMN word",
        "ALTER TABLE base RENAME new TO word",
    ),
    "create as with a cast, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, order_id::text::bigint AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create as with an expression, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, order_id + 100 AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create most values, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, CASE WHEN id > 100 THEN order_id END AS order_id FROM items WHERE id < 1900",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "deleted and inserted again": sql(
        "CREATE TEMP TABLE kept AS SELECT * FROM items",
        "DELETE FROM items",
        "INSERT INTO items SELECT * FROM kept",
    ),
    "delete from an empty table": sql("DELETE FROM hollow"),
    "delete from a table that looked full": sql("DELETE FROM vacated", "INSERT INTO vacated VALUES (9)"),
    "update a table that looked full": sql("UPDATE vacated SET id = 1", "DELETE FROM vacated"),
    "delete from a temporary table": sql("CREATE TEMP TABLE t AS SELECT * FROM orders", "DELETE FROM t"),
    "delete from a table of the revision": sql("CREATE TABLE t AS SELECT * FROM orders", "DELETE FROM t"),
    "delete from one partition": sql("DELETE FROM events WHERE at < '2026-02-01'"),
    "from one partition to the other": sql("UPDATE events SET at = '2026-02-07'"),
    "from the parent to a child": sql("DELETE FROM ONLY base"),
    "delete, rolled back": sql("SAVEPOINT a", "DELETE FROM items", "ROLLBACK TO SAVEPOINT a"),
    "a version table of another program": sql("DELETE FROM other_version"),
}
SETUP = (
    "CREATE TABLE hollow (id integer PRIMARY KEY, word text, total numeric(10, 4))",
    "CREATE TABLE hollow_events (id integer, at date) PARTITION BY RANGE (at)",
    "CREATE TABLE hollow_events_1 PARTITION OF hollow_events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    "CREATE SCHEMA void",
    "CREATE TABLE void.nothing (id integer)",
    "CREATE MATERIALIZED VIEW summary AS SELECT count(*) AS n FROM orders",
    "CREATE INDEX items_ix ON items (order_id)",
    "CREATE TABLE computed (id integer, twice integer GENERATED ALWAYS AS (id * 2) STORED)",
    "INSERT INTO computed VALUES (1)",
    "CREATE TABLE documents (id integer, body json)",
    "INSERT INTO documents VALUES (1, '{\"a\": 1}')",
    "CREATE TABLE vacated (id integer) WITH (autovacuum_enabled = off)",
    "INSERT INTO vacated SELECT generate_series(1, 1000)",
    "DELETE FROM vacated",
    "CREATE TABLE other_version (version_num varchar(32) NOT NULL)",
    "INSERT INTO other_version VALUES ('a')",
    "ANALYZE",
)


def require_form(form: str, database: Database) -> None:
    """Skip a form that this version of the server does not know."""
    if form == "detached concurrently" and int(str(database.value("SHOW server_version_num"))) < 140000:
        pytest.skip("DETACH PARTITION CONCURRENTLY exists from PostgreSQL 14 on")
