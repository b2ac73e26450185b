"""A database with rows of every kind, and the ways in which a revision may destroy some of them."""

from support.servers import Database

SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TYPE place AS (street text, town text)",
    "CREATE DOMAIN price AS numeric(12, 4)",
    "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('a0')",
    """CREATE TABLE orders (id integer PRIMARY KEY, note text, total numeric(12, 4), ratio float8, big bigint,
       at timestamptz, local timestamp, clock time, span interval, code varchar(50), feeling mood, cost price,
       parts numeric(10, 4)[], typed text, rounded numeric)""",
    """INSERT INTO orders SELECT n, 'note ' || n, 1.2345, 0.123456789012, 9007199254740993, '2026-01-01 10:00:00.123456Z',
       '2026-01-01 10:00:00.123456', '10:00:00.123456', '1 day 2 hours', 'code', 'glad', 2.3456,
       '{1.2345}', '1.239', 1.239 FROM generate_series(1, 3) n""",
    "CREATE TABLE places (id integer PRIMARY KEY, home place)",
    "INSERT INTO places VALUES (1, '(Main,Here)')",
    "CREATE TABLE items (id integer PRIMARY KEY, order_id integer REFERENCES orders ON DELETE CASCADE)",
    "INSERT INTO items VALUES (1, 1), (2, 2)",
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.invoices (id integer PRIMARY KEY, feeling mood)",
    "INSERT INTO sales.invoices VALUES (1, 'sad')",
    "CREATE TABLE events (id integer, at date) PARTITION BY RANGE (at)",
    "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    "CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
    "INSERT INTO events VALUES (1, '2026-01-05'), (2, '2026-02-05')",
    "CREATE TABLE base (id integer, word text)",
    "CREATE TABLE derived (more text) INHERITS (base)",
    "INSERT INTO derived VALUES (1, 'word', 'more')",
    "CREATE UNLOGGED TABLE cache (id integer, value text)",
    "INSERT INTO cache VALUES (1, 'x')",
    "CREATE TABLE hosts (address inet, flags bit(8), fee money, said text)",
    "INSERT INTO hosts VALUES ('10.0.0.7/24', B'10101010', 1.23, '1.9 seconds')",
    # Values of row types that only other types hold.
    "CREATE TYPE inner_pair AS (a text, b text)",
    "CREATE TYPE pair_in_array AS (a text, b text)",
    "CREATE TYPE pair_in_domain AS (a text, b text)",
    "CREATE TYPE pair_in_range AS (a integer, b integer)",
    "CREATE TYPE outer_pair AS (pair inner_pair, n integer)",
    "CREATE DOMAIN checked_pair AS pair_in_domain",
    "CREATE TYPE pair_range AS RANGE (subtype = pair_in_range)",
    "CREATE TABLE kinds (id integer, word text)",
    "CREATE TABLE audit (id integer, was kinds, outer_one outer_pair, listed pair_in_array[], checked checked_pair, span pair_range)",
    """INSERT INTO audit VALUES (1, ROW(1, 'a'), ROW(ROW('a', 'b'), 1), ARRAY[ROW('a', 'b')::pair_in_array], ROW('a', 'b'),
       pair_range(ROW(1, 2)::pair_in_range, ROW(3, 4)::pair_in_range))""",
    "CREATE VIEW order_notes AS SELECT id, note FROM orders",
    "CREATE FUNCTION drop_items() RETURNS void LANGUAGE plpgsql AS 'BEGIN DROP TABLE items; END'",
    "CREATE FUNCTION empty_items() RETURNS void LANGUAGE plpgsql AS 'BEGIN TRUNCATE items; INSERT INTO items VALUES (9, 1); END'",
    "CREATE PROCEDURE drop_cache() LANGUAGE plpgsql AS 'BEGIN DROP TABLE cache; END'",
    "CREATE PROCEDURE drop_and_commit() LANGUAGE plpgsql AS 'BEGIN CALL drop_cache(); COMMIT; END'",
    "CREATE PROCEDURE tidy() LANGUAGE plpgsql AS 'BEGIN PERFORM drop_items(); COMMIT; END'",
    "INSERT INTO items SELECT n, 1 FROM generate_series(10, 2000) n",
    "ANALYZE",
)
ROWS = (
    "orders",
    "places",
    "items",
    "sales.invoices",
    "events",
    "events_1",
    "events_2",
    "base",
    "derived",
    "cache",
    "hosts",
    "audit",
)


def everything(database: Database) -> list[object]:
    """All tables, columns and rows, for a comparison."""
    catalogue = database.rows(
        "SELECT c.oid::regclass::text, c.relkind::text, a.attname::text, format_type(a.atttypid, a.atttypmod) "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE c.relkind IN ('r', 'p', 'v', 'c') AND c.relnamespace::regnamespace::text IN ('public', 'sales') "
        "ORDER BY 1, a.attnum"
    )
    contents = [
        database.rows(f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {table} t")
        for table in ROWS
    ]
    return [catalogue, contents]


def sql(*statements: str) -> str:
    """Write the body of a revision that runs these statements."""
    return "\n".join(f"op.execute({statement!r})" for statement in statements)


OWNER = "pipestate_test_owner"
FORMS = {
    "op.drop_table": "op.drop_table('items')",
    "op.drop_table if_exists": "op.execute('DROP TABLE IF EXISTS items')",
    "op.drop_column": "op.drop_column('items', 'order_id')",
    "batch": "with op.batch_alter_table('items') as batch:\n    batch.drop_column('order_id')",
    "raw drop": sql("DROP TABLE items"),
    "raw drop quoted": sql('DROP TABLE "public"."items"'),
    "raw drop several": sql("DROP TABLE items, orders CASCADE"),
    "drop column cascade": sql("ALTER TABLE orders DROP COLUMN note CASCADE"),
    "drop two columns": sql("ALTER TABLE orders DROP COLUMN code, DROP COLUMN big"),
    "drop if exists": sql("ALTER TABLE IF EXISTS orders DROP COLUMN IF EXISTS code"),
    "drop schema": sql("DROP SCHEMA sales CASCADE"),
    "drop type": sql("DROP TYPE mood CASCADE"),
    "drop domain": sql("DROP DOMAIN price CASCADE"),
    "drop attribute": sql("ALTER TYPE place DROP ATTRIBUTE town"),
    "drop an attribute within another type": sql("ALTER TYPE inner_pair DROP ATTRIBUTE b"),
    "drop an attribute within an array": sql("ALTER TYPE pair_in_array DROP ATTRIBUTE b"),
    "drop an attribute below a domain": sql("ALTER TYPE pair_in_domain DROP ATTRIBUTE b"),
    "drop an attribute within a range": sql("ALTER TYPE pair_in_range DROP ATTRIBUTE b"),
    "drop a column of rows that another table keeps": "op.drop_column('kinds', 'word')",
    "drop composite": sql("DROP TYPE place CASCADE"),
    "truncate": sql("TRUNCATE items"),
    "truncate cascade": sql("TRUNCATE orders CASCADE"),
    "truncate restart": sql("TRUNCATE TABLE ONLY items RESTART IDENTITY"),
    "truncate and fill": sql("TRUNCATE items", "INSERT INTO items VALUES (1, 1)"),
    "truncate in a function and fill": sql("SELECT empty_items()"),
    "truncate partition": sql("TRUNCATE events_1"),
    "truncate partitioned": sql("TRUNCATE events"),
    "do block": sql("DO $$ BEGIN DROP TABLE items; END $$"),
    "do block, dynamic": sql("DO $$ BEGIN EXECUTE 'DROP ' || 'TABLE items'; END $$"),
    "do block, caught": sql(
        "DO $$ BEGIN BEGIN DROP TABLE items; EXCEPTION WHEN others THEN NULL; END; END $$"
    ),
    "function": sql("SELECT drop_items()"),
    "procedure": sql("CALL drop_cache()"),
    "new function": sql(
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN DROP TABLE items; RETURN 1; END'",
        "SELECT f()",
    ),
    "trigger": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DROP TABLE cache; RETURN NULL; END'",
        "CREATE TRIGGER t AFTER INSERT ON derived FOR EACH STATEMENT EXECUTE FUNCTION f()",
        "INSERT INTO derived VALUES (2)",
    ),
    "deferred trigger": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DROP TABLE cache; RETURN NULL; END'",
        'CREATE CONSTRAINT TRIGGER "at the end" AFTER INSERT ON derived DEFERRABLE INITIALLY DEFERRED '
        "FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO derived VALUES (2)",
    ),
    "trigger, deferred by the revision": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN TRUNCATE cache; RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON derived DEFERRABLE FOR EACH ROW EXECUTE FUNCTION f()",
        "SET CONSTRAINTS ALL DEFERRED",
        "INSERT INTO derived VALUES (2)",
    ),
    "rule of thumb: rename, then drop": sql("ALTER TABLE items RENAME TO old_items", "DROP TABLE old_items"),
    "move, then drop": sql("ALTER TABLE items SET SCHEMA sales", "DROP TABLE sales.items"),
    "delete, then drop": sql("DELETE FROM items", "DROP TABLE items"),
    "truncate, then drop": sql("TRUNCATE items", "DROP TABLE items"),
    "below a savepoint": "with op.get_bind().begin_nested():\n    op.drop_table('items')",
    "below two savepoints": sql("SAVEPOINT a", "SAVEPOINT b", "DROP TABLE items", "RELEASE b", "RELEASE a"),
    "drop and create": sql(
        "DROP TABLE items", "CREATE TABLE items (id integer PRIMARY KEY, order_id integer)"
    ),
    "drop and create with fewer columns": sql(
        "DROP TABLE items", "CREATE TABLE items (id integer)", "INSERT INTO items VALUES (1)"
    ),
    "drop and add the column": sql(
        "ALTER TABLE orders DROP COLUMN code", "ALTER TABLE orders ADD COLUMN code text"
    ),
    "drop and add the column with a default": sql(
        "ALTER TABLE orders DROP COLUMN code", "ALTER TABLE orders ADD COLUMN code text DEFAULT 'x'"
    ),
    "drop and generate the column": sql(
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders ADD COLUMN code text GENERATED ALWAYS AS ('x') STORED",
    ),
    "copy under another name": sql("CREATE TABLE copied AS SELECT * FROM items", "DROP TABLE items"),
    "replace by a view": sql("DROP TABLE cache", "CREATE VIEW cache AS SELECT 1 AS id, 'x' AS value"),
    "drop partition": sql("DROP TABLE events_1"),
    "detach and drop": sql("ALTER TABLE events DETACH PARTITION events_1", "DROP TABLE events_1"),
    "drop partitioned": sql("DROP TABLE events"),
    "drop column of partitions": sql("ALTER TABLE events DROP COLUMN id"),
    "drop inherited column": sql("ALTER TABLE base DROP COLUMN word"),
    "drop inherited tables": sql("DROP TABLE base CASCADE"),
    "unlogged": sql("DROP TABLE cache"),
    "scale": sql("ALTER TABLE orders ALTER total TYPE numeric(12, 2)"),
    "scale through op": "op.alter_column('orders', 'total', type_=sa.Numeric(12, 2))",
    "scale of a plain numeric": sql("ALTER TABLE orders ALTER rounded TYPE numeric(12, 2)"),
    "scale of a domain": sql("ALTER TABLE orders ALTER cost TYPE numeric(12, 1)"),
    "scale of an array": sql("ALTER TABLE orders ALTER parts TYPE numeric(10, 1)[]"),
    "numeric to integer": sql("ALTER TABLE orders ALTER total TYPE integer"),
    "numeric to float": sql("ALTER TABLE orders ALTER total TYPE float8"),
    "float8 to real": sql("ALTER TABLE orders ALTER ratio TYPE real"),
    "float to integer": sql("ALTER TABLE orders ALTER ratio TYPE bigint"),
    "float to numeric with a scale": sql("ALTER TABLE orders ALTER ratio TYPE numeric(10, 2)"),
    "bigint to float": sql("ALTER TABLE orders ALTER big TYPE float8"),
    "timestamptz to date": sql("ALTER TABLE orders ALTER at TYPE date"),
    "timestamp precision": sql("ALTER TABLE orders ALTER local TYPE timestamp(0)"),
    "timestamptz precision": "op.alter_column('orders', 'at', type_=sa.dialects.postgresql.TIMESTAMP(True, 3))",
    "timestamp to time": sql("ALTER TABLE orders ALTER local TYPE time"),
    "time precision": sql("ALTER TABLE orders ALTER clock TYPE time(0)"),
    "interval fields": sql("ALTER TABLE orders ALTER span TYPE interval day"),
    "text to a scaled number": sql(
        "ALTER TABLE orders ALTER typed TYPE numeric(10, 1) USING typed::numeric(10, 1)"
    ),
    "cut text": sql("ALTER TABLE orders ALTER code TYPE varchar(2) USING code::varchar(2)"),
    "type by copy": sql(
        "ALTER TABLE orders ADD COLUMN new integer",
        "UPDATE orders SET new = total",
        "ALTER TABLE orders DROP COLUMN total",
        "ALTER TABLE orders RENAME new TO total",
    ),
    "raw driver": "op.get_bind().connection.cursor().execute('DROP TABLE items')",
    "session of the ORM": "from sqlalchemy.orm import Session\nSession(op.get_bind()).execute(sa.text('DROP TABLE items'))",
    "metadata": "sa.Table('items', sa.MetaData()).drop(op.get_bind())",
    "error swallowed": "try:\n    op.drop_table('items')\nexcept Exception:\n    pass",
    "commit by text": sql("DROP TABLE items", "COMMIT"),
    "commit in one text": sql("DROP TABLE items; COMMIT"),
    "commit in one text, with a comment": sql("DROP TABLE items; -- now\n/* x */ commit;"),
    "commit of the connection": "op.drop_table('items')\nop.get_bind().commit()",
    "commit, caught": "op.drop_table('items')\ntry:\n    op.get_bind().commit()\nexcept Exception:\n    pass",
    "commit by text, then drop": sql("COMMIT", "DROP TABLE items"),
    "commit by text, then truncate": sql("COMMIT", "TRUNCATE items"),
    "prepared": sql("DROP TABLE items", "PREPARE TRANSACTION 'x'"),
    "autocommit block": "with op.get_context().autocommit_block():\n    op.drop_table('items')",
    "before an autocommit block": "op.drop_table('items')\nwith op.get_context().autocommit_block():\n    pass",
    "autocommit block, truncate": "with op.get_context().autocommit_block():\n    op.execute('TRUNCATE items')",
    "autocommit block, begun": (
        "with op.get_context().autocommit_block():\n    op.execute('BEGIN')\n    op.execute('DROP TABLE items')\n"
        "    op.execute('COMMIT')"
    ),
    "autocommit block, named concurrently": (
        "with op.get_context().autocommit_block():\n    op.execute('DROP TABLE items /* CONCURRENTLY */')"
    ),
    "autocommit block, a function": "with op.get_context().autocommit_block():\n    op.execute('SELECT drop_items()')",
    "autocommit block, explained": (
        "with op.get_context().autocommit_block():\n    op.execute('EXPLAIN ANALYZE SELECT drop_items()')"
    ),
    "a block commits by itself, through a function": (
        "with op.get_context().autocommit_block():\n"
        "    op.execute('DO $$ BEGIN PERFORM drop_items(); COMMIT; END $$')"
    ),
    "a block commits by itself, dynamic": (
        "with op.get_context().autocommit_block():\n"
        "    op.execute(\"DO $$ BEGIN EXECUTE 'DR' || 'OP TABLE items'; COMMIT; END $$\")"
    ),
    "a procedure commits by itself": (
        "with op.get_context().autocommit_block():\n    op.execute('CALL tidy()')"
    ),
    "a procedure of a procedure commits by itself": (
        "with op.get_context().autocommit_block():\n    op.execute('CALL drop_and_commit()')"
    ),
    "a savepoint of the guard's name": sql("DROP TABLE items", "SAVEPOINT pipestate_step"),
    "commit and chain": sql("DROP TABLE items", "COMMIT AND CHAIN"),
    "rollback and chain": sql("ROLLBACK AND CHAIN", "DROP TABLE items"),
    "drop owned": sql("CREATE ROLE leaving", "ALTER TABLE items OWNER TO leaving", "DROP OWNED BY leaving"),
    "through a cursor": sql("DECLARE c CURSOR FOR SELECT drop_items()", "FETCH ALL FROM c"),
    "through a prepared statement": sql("PREPARE p AS SELECT drop_items()", "EXECUTE p"),
    "through COPY": sql("COPY (SELECT drop_items()) TO '/dev/null'"),
    "after it raises": "op.drop_table('items')\nraise RuntimeError('boom')",
    "created as nothing": sql(
        "CREATE TABLE new AS SELECT * FROM items WHERE false",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "renamed away, created empty, dropped": sql(
        "ALTER TABLE items RENAME TO gone", "CREATE TABLE items (LIKE gone)", "DROP TABLE gone"
    ),
    "another table under its name": sql(
        "ALTER TABLE items RENAME TO gone", "ALTER TABLE cache RENAME TO items", "DROP TABLE gone"
    ),
    "empty partitions in its place": sql(
        "DROP TABLE cache",
        "CREATE TABLE cache (id integer, value text) PARTITION BY HASH (id)",
        "CREATE TABLE cache_0 PARTITION OF cache FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    ),
    "moved into a schema that is dropped": sql(
        "CREATE SCHEMA bin", "ALTER TABLE items SET SCHEMA bin", "DROP SCHEMA bin CASCADE"
    ),
    "owned": sql(
        f"CREATE ROLE {OWNER}",
        f"ALTER TABLE cache OWNER TO {OWNER}",
        f"DROP OWNED BY {OWNER}",
        f"DROP ROLE {OWNER}",
    ),
    "attribute of a typed table": sql(
        "CREATE TABLE typed OF place",
        "INSERT INTO typed VALUES ('Main', 'Here')",
        "ALTER TYPE place DROP ATTRIBUTE town CASCADE",
    ),
    "search_path": "op.execute('SET LOCAL search_path = sales')\nop.drop_table('invoices')",
    "truncate in a trigger": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN TRUNCATE cache; RETURN NULL; END'",
        "CREATE TRIGGER t AFTER UPDATE ON derived FOR EACH STATEMENT EXECUTE FUNCTION f()",
        "UPDATE derived SET word = word",
    ),
    "truncate, formatted": sql("DO $$ BEGIN EXECUTE 'TRUNC' || 'ATE orders CASCADE'; END $$"),
    "prepared statement": sql("PREPARE p AS SELECT drop_items()", "EXECUTE p", "DEALLOCATE p"),
    "explained": sql("EXPLAIN ANALYZE SELECT drop_items()"),
    "explained in an autocommit block": (
        "with op.get_context().autocommit_block():\n    op.execute('EXPLAIN ANALYZE SELECT drop_items()')"
    ),
    "no longer inherited, then dropped": sql("ALTER TABLE derived NO INHERIT base", "DROP TABLE derived"),
    "rollback by text, then drop": sql("ROLLBACK", "DROP TABLE items"),
    "several in one text": sql("CREATE TABLE t (id integer); DROP TABLE items; DROP TABLE t"),
    "text to one character": sql('ALTER TABLE orders ALTER typed TYPE "char"'),
    "text to a name": sql("ALTER TABLE orders ALTER typed TYPE name"),
    "address to a network": sql(
        "ALTER TABLE hosts ALTER address TYPE cidr USING address::cidr",
    ),
    "fewer bits": sql("ALTER TABLE hosts ALTER flags TYPE bit(4) USING flags::bit(4)"),
    "money to whole numbers": sql("ALTER TABLE hosts ALTER fee TYPE numeric(10, 0)"),
    "text to money": sql("ALTER TABLE orders ALTER typed TYPE money USING typed::money"),
    "text to an interval of seconds": sql(
        "ALTER TABLE hosts ALTER said TYPE interval(0) USING said::interval(0)"
    ),
    "left": sql("ALTER TABLE orders ALTER code TYPE varchar(2) USING left(code, 2)"),
    # Copies that are none.
    "drop and add the column, one value": sql(
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders ADD COLUMN code text",
        "UPDATE orders SET code = 'x' WHERE id = 1",
    ),
    "drop and add the column, all values": sql(
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders ADD COLUMN code text",
        "UPDATE orders SET code = 'x'",
    ),
    "drop and add the column in one statement": sql(
        "ALTER TABLE orders DROP COLUMN ratio, ADD COLUMN ratio float8 DEFAULT random()"
    ),
    "drop and add the column, volatile": sql(
        "ALTER TABLE orders DROP COLUMN ratio",
        "ALTER TABLE orders ADD COLUMN ratio float8 DEFAULT random()",
    ),
    "drop and add the column, rewritten": sql(
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders ADD COLUMN code text DEFAULT 'x'",
        "ALTER TABLE orders ALTER big TYPE text",
    ),
    "drop and add the column, added, dropped again": sql(
        "ALTER TABLE orders DROP COLUMN code, ADD COLUMN new text",
        "UPDATE orders SET new = 'x'",
        "ALTER TABLE orders RENAME new TO code",
    ),
    "drop and add the column, updated below a savepoint": sql(
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders ADD COLUMN code text",
        "UPDATE orders SET code = 'x'",
        "SAVEPOINT a",
        "UPDATE orders SET code = 'y'",
        "ROLLBACK TO SAVEPOINT a",
    ),
    "drop and add the key": sql(
        "ALTER TABLE items DROP COLUMN id",
        "ALTER TABLE items ADD COLUMN id integer GENERATED ALWAYS AS IDENTITY",
    ),
    "drop and add an attribute": sql(
        "ALTER TYPE place DROP ATTRIBUTE town", "ALTER TYPE place ADD ATTRIBUTE town text"
    ),
    "drop and add the column of partitions": sql(
        "ALTER TABLE events DROP COLUMN id",
        "ALTER TABLE events ADD COLUMN id integer",
        "UPDATE events SET id = 7",
    ),
    "drop, create and one row": "op.drop_table('items')\nop.create_table('items', sa.Column('id', sa.Integer), "
    "sa.Column('order_id', sa.Integer))\nop.execute('INSERT INTO items VALUES (1, 1)')",
    "drop, create and all rows": sql(
        "DROP TABLE cache", "CREATE TABLE cache (id integer, value text)", "INSERT INTO cache VALUES (1, 'x')"
    ),
    "drop, create and one row in one text": sql(
        "DROP TABLE items; CREATE TABLE items (id integer, order_id integer); INSERT INTO items VALUES (1, 1)"
    ),
    "create, one row, drop, rename": sql(
        "CREATE TABLE new_items (id integer, order_id integer)",
        "INSERT INTO new_items VALUES (1, 1)",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "create, few rows, drop, rename": sql(
        "CREATE TABLE new_items AS SELECT * FROM items LIMIT 900",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "create, few rows, drop, rename in one text": sql(
        "CREATE TABLE new_items AS SELECT * FROM items LIMIT 5; DROP TABLE items; "
        "ALTER TABLE new_items RENAME TO items"
    ),
    "rename, create, one row, drop": sql(
        "ALTER TABLE items RENAME TO old_items",
        "CREATE TABLE items (id integer, order_id integer)",
        "INSERT INTO items VALUES (1, 1)",
        "DROP TABLE old_items",
    ),
    "create, one row, delete, drop, rename": sql(
        "CREATE TABLE new_items (id integer, order_id integer)",
        "INSERT INTO new_items VALUES (1, 1)",
        "DELETE FROM items",
        "DROP TABLE items",
        "ALTER TABLE new_items RENAME TO items",
    ),
    "another table is there, then drop and create": sql(
        "CREATE TABLE other AS SELECT * FROM items",
        "DROP TABLE items",
        "CREATE TABLE items AS SELECT 1 AS id, 1 AS order_id FROM generate_series(1, 2000)",
    ),
    "a column by copy, one value": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = note WHERE id = 1",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by copy, one value, in one text": sql(
        "ALTER TABLE orders ADD COLUMN new text; UPDATE orders SET new = note WHERE id = 1; "
        "ALTER TABLE orders DROP COLUMN note CASCADE; ALTER TABLE orders RENAME new TO note"
    ),
    "a column by copy, one value, in a block": sql(
        "DO $$ BEGIN ALTER TABLE orders ADD COLUMN new text; UPDATE orders SET new = note WHERE id = 1; "
        "ALTER TABLE orders DROP COLUMN note CASCADE; ALTER TABLE orders RENAME new TO note; END $$"
    ),
    "a column by copy, the old one renamed, one value": sql(
        "ALTER TABLE orders RENAME note TO old_note",
        "ALTER TABLE orders ADD COLUMN note text",
        "UPDATE orders SET note = old_note WHERE id = 1",
        "ALTER TABLE orders DROP COLUMN old_note CASCADE",
    ),
    "a column by copy of constants": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "UPDATE orders SET new = 'x'",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by a constant default": sql(
        "ALTER TABLE orders ADD COLUMN new text DEFAULT 'x'",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column by a volatile default": sql(
        "ALTER TABLE orders ADD COLUMN new text DEFAULT random()::text",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "another column under its name": sql(
        "ALTER TABLE orders DROP COLUMN note CASCADE", "ALTER TABLE orders RENAME code TO note"
    ),
    "another column under its name, before the drop": sql(
        "ALTER TABLE orders RENAME note TO gone",
        "ALTER TABLE orders RENAME code TO note",
        "ALTER TABLE orders DROP COLUMN gone CASCADE",
    ),
    "another column under its name, of another type": sql(
        "ALTER TABLE orders DROP COLUMN big", "ALTER TABLE orders RENAME id TO big"
    ),
    "a column by copy, junk rows": sql(
        "ALTER TABLE orders ADD COLUMN new text",
        "INSERT INTO orders (id, new) SELECT n, 'note ' || n FROM generate_series(10, 90) n",
        "ALTER TABLE orders DROP COLUMN note CASCADE",
        "ALTER TABLE orders RENAME new TO note",
    ),
    "a column of partitions by copy, one value": sql(
        "ALTER TABLE events ADD COLUMN new bigint",
        "INSERT INTO events (at, new) VALUES ('2026-01-09', 1)",
        "ALTER TABLE events DROP COLUMN id",
        "ALTER TABLE events RENAME new TO id",
    ),
    "an inherited column by copy of nothing": sql(
        "ALTER TABLE base ADD COLUMN new text",
        "INSERT INTO base (id, new) VALUES (2, 'x')",
        "ALTER TABLE base DROP COLUMN word",
        "ALTER TABLE base RENAME new TO word",
    ),
    "create without the values, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, NULL::integer AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create with constants, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, 1 AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create without the values, drop, rename in one text": sql(
        "CREATE TABLE new AS SELECT id, NULL::integer AS order_id FROM items; DROP TABLE items; "
        "ALTER TABLE new RENAME TO items"
    ),
    # Emptied tables.
    "delete": sql("DELETE FROM items"),
    "delete through op": "op.execute(sa.table('items').delete())",
    "delete in two parts": sql("DELETE FROM items WHERE id < 100", "DELETE FROM items WHERE id >= 100"),
    "delete by a cascade": sql("UPDATE items SET order_id = 1", "DELETE FROM orders WHERE id = 1"),
    "delete in a block": sql("DO $$ BEGIN EXECUTE 'DEL' || 'ETE FROM items'; END $$"),
    "delete in a trigger": sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM cache; RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON derived DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO derived VALUES (2)",
    ),
    "delete below a savepoint": sql("SAVEPOINT a", "DELETE FROM items", "RELEASE SAVEPOINT a"),
    "delete from partitions": sql("DELETE FROM events"),
    "delete from an inherited table": sql("DELETE FROM base"),
    "delete and rename": sql("DELETE FROM cache", "ALTER TABLE cache RENAME TO old_cache"),
    "delete and rewrite": sql("DELETE FROM items", "ALTER TABLE items ALTER order_id TYPE bigint"),
    "move the rows": sql("CREATE TABLE moved AS SELECT * FROM items", "DELETE FROM items"),
    "delete, insert, delete": sql("DELETE FROM cache", "INSERT INTO cache VALUES (2)", "DELETE FROM cache"),
    "delete in an autocommit block": "with op.get_context().autocommit_block():\n    op.execute('DELETE FROM items')",
    "delete before an autocommit block": (
        "op.execute('DELETE FROM items')\nwith op.get_context().autocommit_block():\n    pass"
    ),
    "delete, then commit": sql("DELETE FROM items", "COMMIT", "INSERT INTO items VALUES (1, 1)"),
}
