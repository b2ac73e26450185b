"""The same for SQLite: a file with rows, ways to destroy some of them, and revisions that lose nothing."""

from attacks.destructive import sql
from support.servers import Database

ENVIRONMENTS = (
    ("generic", None),
    ("per_migration", None),
    ("own_transaction", None),
    ("handed_over", None),
    ("swallowing", None),
    ("autocommit", None),
    ("not_transactional", None),
    ("multidb", None),
    ("asynchronous", "aiosqlite"),
    ("run", None),
)
SETUP = (
    "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('a0')",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, total NUMERIC(10, 2), at DATETIME, ratio REAL, code VARCHAR(20))",
    "INSERT INTO orders VALUES (1, 'a', 1.5, '2026-01-01 10:00:00', 0.5, '12'), (2, 'b', 2.5, '2026-01-02 11:00:00', 0.25, '34')",
    "CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders ON DELETE CASCADE)",
    "INSERT INTO items VALUES (1, 1), (2, 2)",
    "CREATE TABLE hollow (id INTEGER PRIMARY KEY, word TEXT)",
    "CREATE VIEW notes AS SELECT 1 AS one",
    "CREATE INDEX items_ix ON items (order_id)",
)


def everything(database: Database) -> list[object]:
    """All definitions and rows, for a comparison."""
    found: list[object] = [database.rows("SELECT name, sql FROM sqlite_master ORDER BY name")]
    return found + [database.rows(f"SELECT * FROM {table}") for table in ("orders", "items")]


def batch(table: str, *calls: str, options: str = "") -> str:
    lines = "".join(f"\n    batch.{call}" for call in calls)
    return f"with op.batch_alter_table({table!r}{options}) as batch:{lines}"


FORMS = {
    "op.drop_table": "op.drop_table('items')",
    "raw drop": sql('DROP TABLE IF EXISTS "items"'),
    "drop column": sql("ALTER TABLE orders DROP COLUMN code"),
    "batch drop column": batch("orders", "drop_column('note')"),
    "rename, then drop": sql("ALTER TABLE items RENAME TO old", "DROP TABLE old"),
    "delete": sql("DELETE FROM items"),
    "delete by a trigger": sql(
        "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN DELETE FROM items; END", "UPDATE orders SET note = 'x'"
    ),
    "delete in two parts": sql("DELETE FROM items WHERE id = 1", "DELETE FROM items WHERE id > 1"),
    "move the rows": sql("CREATE TABLE moved AS SELECT * FROM items", "DELETE FROM items"),
    "delete and rename": sql("DELETE FROM items", "ALTER TABLE items RENAME TO things"),
    "delete, then drop": sql("DELETE FROM items", "DROP TABLE items"),
    "drop and create": sql(
        "DROP TABLE items", "CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER)"
    ),
    "drop and create smaller": sql(
        "DROP TABLE items", "CREATE TABLE items (id INTEGER PRIMARY KEY)", "INSERT INTO items VALUES (1)"
    ),
    "copy without a column": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY)",
        "INSERT INTO new SELECT id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "copy under another name": sql("CREATE TABLE copied AS SELECT * FROM items", "DROP TABLE items"),
    "replace by a view": sql("DROP TABLE items", "CREATE VIEW items AS SELECT 1 AS id, 1 AS order_id"),
    "text to integer": batch("orders", "alter_column('note', type_=sa.Integer)"),
    "time to date": batch("orders", "alter_column('at', type_=sa.Date)"),
    "real to integer": batch("orders", "alter_column('ratio', type_=sa.Integer)"),
    "number to integer": batch("orders", "alter_column('total', type_=sa.Integer)"),
    "below a savepoint": "with op.get_bind().begin_nested():\n    op.drop_table('items')",
    "commit by text": sql("DROP TABLE items", "COMMIT"),
    "commit of the connection": "op.drop_table('items')\nop.get_bind().commit()",
    "error swallowed": "try:\n    op.drop_table('items')\nexcept Exception:\n    pass",
    "after it raises": "op.drop_table('items')\nraise RuntimeError('boom')",
    "raw driver": "op.get_bind().connection.cursor().execute('DROP TABLE items')",
    "drop and add the column": sql(
        "ALTER TABLE orders DROP COLUMN code", "ALTER TABLE orders ADD COLUMN code VARCHAR(20)"
    ),
    "drop and add the column in a batch": batch(
        "orders", "drop_column('code')", "add_column(sa.Column('code', sa.String(20)))"
    ),
    "copy with a column left out": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new (id) SELECT id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "a column by copy, one value": sql(
        "ALTER TABLE orders ADD COLUMN new TEXT",
        "UPDATE orders SET new = note WHERE id = 1",
        "ALTER TABLE orders DROP COLUMN note",
        "ALTER TABLE orders RENAME COLUMN new TO note",
    ),
    "a column by copy of constants": sql(
        "ALTER TABLE orders ADD COLUMN new TEXT DEFAULT 'x'",
        "ALTER TABLE orders DROP COLUMN note",
        "ALTER TABLE orders RENAME COLUMN new TO note",
    ),
    "another column under its name": sql(
        "ALTER TABLE orders DROP COLUMN note", "ALTER TABLE orders RENAME COLUMN code TO note"
    ),
    "create without the values, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, NULL AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create with constants, drop, rename": sql(
        "CREATE TABLE new AS SELECT id, 1 AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "create with junk rows, drop, rename": sql(
        "CREATE TABLE new AS SELECT id + 90 AS id, order_id + 90 AS order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "created as nothing": sql(
        "CREATE TABLE new AS SELECT * FROM items WHERE 0",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "renamed away, created empty, dropped": sql(
        "ALTER TABLE items RENAME TO gone",
        "CREATE TABLE items (id INTEGER, order_id INTEGER)",
        "DROP TABLE gone",
    ),
    "main": sql("DROP TABLE main.items"),
    "a new column takes the name": sql(
        "ALTER TABLE orders ADD COLUMN label TEXT",
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders RENAME COLUMN label TO code",
    ),
    "a copy with other values takes the name": sql(
        "ALTER TABLE orders ADD COLUMN label TEXT",
        "UPDATE orders SET label = code WHERE id = 1",
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders RENAME COLUMN label TO code",
    ),
    "few rows copied": sql(
        "INSERT INTO items SELECT id + 10, order_id FROM items",
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new SELECT * FROM items WHERE id = 1",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "few rows copied, the old table renamed": sql(
        "INSERT INTO items SELECT id + 10, order_id FROM items",
        "ALTER TABLE items RENAME TO old",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO items SELECT * FROM old WHERE id = 1",
        "DROP TABLE old",
    ),
    "one row whole, one without a column": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new SELECT * FROM items WHERE id = 1",
        "INSERT INTO new (id) SELECT id FROM items WHERE id = 2",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "a copy fails, and a smaller one follows": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER CHECK (order_id > 5))"
    )
    + "\ntry:\n    op.execute('INSERT INTO new SELECT * FROM items')\nexcept Exception:\n    pass\n"
    + sql(
        "INSERT INTO new (id) SELECT id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "a copy is rolled back, and a smaller one follows": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "SAVEPOINT own",
        "INSERT INTO new SELECT * FROM items",
        "ROLLBACK TO own",
        "INSERT INTO new (id) SELECT id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "copied as a smaller type, and back": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, note INTEGER)",
        "INSERT INTO new SELECT id, CAST(note AS INTEGER) FROM orders",
        "CREATE TABLE newer (id INTEGER PRIMARY KEY, note TEXT)",
        "INSERT INTO newer SELECT id, note FROM new",
        "DROP TABLE orders",
        "ALTER TABLE newer RENAME TO orders",
        "DROP TABLE new",
    ),
    "copied from a subquery": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new SELECT id, order_id FROM (SELECT id, NULL AS order_id FROM items)",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "copied crosswise": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new (id, order_id) SELECT order_id, NULL FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "emptied, then said to be copied": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new (id) SELECT id FROM items",
        "DELETE FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "dropped after a rebuild": batch("orders", "alter_column('code', nullable=False)")
    + "\n"
    + sql("ALTER TABLE orders DROP COLUMN note"),
}
HARMLESS = {
    "nothing": "pass",
    "new table": sql("CREATE TABLE fresh (id INTEGER)"),
    "new column": "op.add_column('orders', sa.Column('fresh', sa.Text))",
    "batch, new column": batch(
        "items", "add_column(sa.Column('fresh', sa.Text))", options=", recreate='always'"
    ),
    "batch, renamed column": batch("orders", "alter_column('code', new_column_name='label')"),
    "batch, wider type": batch("orders", "alter_column('code', type_=sa.String(40), nullable=False)"),
    "batch of the parent, foreign keys off": sql("PRAGMA foreign_keys = OFF")
    + "\n"
    + batch("orders", "alter_column('code', nullable=False)"),
    "renamed table": "op.rename_table('items', 'things')",
    "renamed table, then batch": "op.rename_table('items', 'things')\n"
    + batch("things", "add_column(sa.Column('fresh', sa.Text))", options=", recreate='always'"),
    "renamed column": sql("ALTER TABLE items RENAME COLUMN order_id TO of_order"),
    "create, copy, drop, rename": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER, more TEXT)",
        "INSERT INTO new (id, order_id) SELECT id, order_id FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "empty table": sql("DROP TABLE hollow"),
    "column of an empty table": sql("ALTER TABLE hollow DROP COLUMN word"),
    "temporary table": sql("CREATE TEMP TABLE t AS SELECT * FROM orders", "DROP TABLE t"),
    "view": sql("DROP VIEW notes"),
    "index": sql("DROP INDEX items_ix"),
    "created and dropped": sql("CREATE TABLE t AS SELECT * FROM items", "DROP TABLE t"),
    "added and dropped": sql(
        "ALTER TABLE orders ADD COLUMN tmp TEXT",
        "UPDATE orders SET tmp = 'x'",
        "ALTER TABLE orders DROP COLUMN tmp",
    ),
    "rows deleted": sql("DELETE FROM items WHERE id = 1"),
    "rows deleted, and inserted again": sql(
        "CREATE TEMP TABLE kept AS SELECT * FROM items",
        "DELETE FROM items",
        "INSERT INTO items SELECT * FROM kept",
    ),
    "delete from an empty table": sql("DELETE FROM hollow"),
    "delete from a table of the revision": sql("CREATE TABLE t AS SELECT * FROM items", "DELETE FROM t"),
    "create as, drop, rename": sql(
        "CREATE TABLE new AS SELECT * FROM items", "DROP TABLE items", "ALTER TABLE new RENAME TO items"
    ),
    "column by copy": sql(
        "ALTER TABLE orders ADD COLUMN label TEXT",
        "UPDATE orders SET label = code",
        "ALTER TABLE orders DROP COLUMN code",
        "ALTER TABLE orders RENAME COLUMN label TO code",
    ),
    "insert without a list": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO new SELECT * FROM items",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "renamed away, created empty": sql(
        "ALTER TABLE items RENAME TO old", "CREATE TABLE items (id INTEGER, order_id INTEGER)"
    ),
    "copied to a temporary table and back": sql(
        "CREATE TEMPORARY TABLE kept AS SELECT id, order_id FROM items",
        "DROP TABLE items",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "INSERT INTO items SELECT id, order_id FROM kept",
        "DROP TABLE kept",
    ),
    "renamed away and copied back": sql(
        "ALTER TABLE items RENAME TO old",
        'CREATE TABLE "items" ("id" INTEGER PRIMARY KEY, "order_id" INTEGER)',
        'INSERT INTO "items" ("id", "order_id") SELECT o."id", o."order_id" AS "x" FROM "old" AS o ORDER BY 1',
        "DROP TABLE old",
    ),
    "copied by Python": sql("CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)")
    + "\nrows = op.get_bind().exec_driver_sql('SELECT id, order_id FROM items').all()"
    + "\nfor row in rows:\n    op.get_bind().exec_driver_sql('INSERT INTO new VALUES (?, ?)', tuple(row))\n"
    + sql("DROP TABLE items", "ALTER TABLE new RENAME TO items"),
    "copied by a WITH": sql(
        "CREATE TABLE new (id INTEGER PRIMARY KEY, order_id INTEGER)",
        "WITH rows AS (SELECT * FROM items) INSERT INTO new SELECT id, order_id FROM rows",
        "DROP TABLE items",
        "ALTER TABLE new RENAME TO items",
    ),
    "column by copy, dropped in a batch": sql(
        "ALTER TABLE orders ADD COLUMN label TEXT", "UPDATE orders SET label = code WHERE code IS NOT NULL"
    )
    + "\n"
    + batch("orders", "drop_column('code')")
    + "\n"
    + batch("orders", "alter_column('label', new_column_name='code')", options=", recreate='always'"),
    "an error that is caught": "try:\n    op.execute('DROP TABLE nowhere')\nexcept Exception:\n    pass",
    "a drop that is rolled back": sql("SAVEPOINT own", "DROP TABLE items", "ROLLBACK TO own"),
    "a batch below a savepoint": "with op.get_bind().begin_nested():\n    op.execute('SELECT 1')\n"
    + batch("items", "add_column(sa.Column('fresh', sa.Text))", options=", recreate='always'"),
    "trigger": sql("CREATE TRIGGER t AFTER INSERT ON items BEGIN SELECT 1; END", "DROP TRIGGER t"),
}

# Operations of a batch block on the column {c} of orders. The second block of a pair names it as the first has left it.
LOSING = {
    "drop": "drop_column('{c}')",
    "drop and add": "drop_column('{c}')\n    batch.add_column(sa.Column('{c}', sa.String(20)))",
    "to integer": "alter_column('{c}', type_=sa.Integer)",
    "to a date": "alter_column('{c}', type_=sa.Date)",
}
KEEPING = {
    "nothing": "f('x')",
    "add": "add_column(sa.Column('{new}', sa.Text))",
    "add with a default": "add_column(sa.Column('{new}', sa.Integer, nullable=False, server_default='0'))",
    "rename": "alter_column('{c}', new_column_name='{new}')",
    "wider": "alter_column('{c}', type_=sa.String(99))",
    "to text": "alter_column('{c}', type_=sa.Text)",
    "not null": "alter_column('{c}', nullable=False)",
    "default": "alter_column('{c}', server_default='x')",
    "index": "create_index('ix_{new}', ['{c}'])",
    "unique": "create_unique_constraint('uq_{new}', ['{c}'])",
    "check": "create_check_constraint('ck_{new}', sa.text('id > 0'))",
    "foreign key": "create_foreign_key('fk_{new}', 'items', ['id'], ['id'])",
    "primary key": "create_primary_key('pk_{new}', ['id'])",
}


def pair(first: str, second: str) -> str:
    """Write two batch blocks: the second works on the same column, or on `note` once the first has dropped that."""
    every = LOSING | KEEPING
    one = every[first].format(c="code", new="one")
    left = {"drop": "note", "rename": "one"}.get(first, "code")
    if first == second == "drop":
        left = "note"
    two = every[second].format(c=left, new="two")
    return "\n".join(batch("orders", each, options=", recreate='always'") for each in (one, two))
