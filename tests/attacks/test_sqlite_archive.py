"""On SQLite, too, a restore brings everything back as it was, or a sentence names what it cannot restore."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.attacked import Done
from attacks.contracts import CONTRACT, lay_out_contract, takes
from attacks.project import Project
from support.servers import Sqlite

COPY = "pipestate_archive_orders_columns_b2"
ROWS = "SELECT *, typeof(old) FROM orders ORDER BY 1, 2"
MADE = "SELECT replace(sql, '\"', '') FROM sqlite_master WHERE tbl_name = 'orders' AND sql IS NOT NULL ORDER BY 1"
ORDERS = "CREATE TABLE orders (id integer PRIMARY KEY, name text, old text)"
TWO = "INSERT INTO orders VALUES (1, 'order 1', 'a'), (2, 'order 2', 'b')"


@pytest.fixture
def shop(sqlite: Sqlite, tmp_path: Path) -> Iterator[Project]:
    """The project `attacked_contract` at a1 on a file, whose contract takes `old` of orders."""
    database = sqlite.create()
    project = lay_out_contract(tmp_path / "project", database)
    done = project.alembic("upgrade", "a1")
    assert done.returncode == 0, done.stderr
    takes(project, columns='{"orders": ["old"]}')
    yield project
    sqlite.drop(database)


def went(project: Project) -> None:
    up = project.alembic("upgrade", "head")
    assert up.returncode == 0, up.stderr
    assert project.database.value("SELECT version_num FROM alembic_version") == "b2"


def back(project: Project, *options: str) -> Done:
    down = project.alembic(*options, "downgrade", "a1")
    assert "Traceback" not in down.stderr, down.stderr
    return down


def assert_refused(project: Project, words: str) -> None:
    before = project.database.rows(ROWS)
    up = project.alembic("upgrade", "head")
    assert up.returncode != 0, "it was not refused"
    assert words in up.stderr, up.stderr
    assert "Traceback" not in up.stderr, up.stderr
    assert project.database.rows(ROWS) == before


@pytest.mark.parametrize(
    "made",
    [
        "id integer PRIMARY KEY, name text, old",
        "id integer PRIMARY KEY, name, old text",
        "id integer PRIMARY KEY, name text COLLATE NOCASE UNIQUE, old text COLLATE NOCASE",
        "id integer PRIMARY KEY, name text UNIQUE ON CONFLICT REPLACE, old text",
        "id integer PRIMARY KEY, name text, old text, up text GENERATED ALWAYS AS (upper(name)) STORED",
        "id integer PRIMARY KEY AUTOINCREMENT, name text CHECK (name <> ''), old text CHECK (old <> '')",
        "id integer PRIMARY KEY, \"na%s me%\" text DEFAULT '5%', old text DEFAULT '%s'",
        "id integer PRIMARY KEY, name text, old text, UNIQUE (name, old)",
    ],
)
def test_whatever_a_table_is_like_it_comes_back_so(shop: Project, made: str) -> None:
    shop.database.run(
        f"CREATE TABLE orders ({made})", TWO.split(" VALUES")[0] + "(id) VALUES (1), (2), (3), (4)"
    )
    for id_, value in ((1, "'1'"), (2, "1"), (3, "x'31'"), (4, "NULL")):
        shop.database.run(f"UPDATE orders SET old = {value} WHERE id = {id_}")
    before, schema = shop.database.rows(ROWS), shop.database.rows(MADE)
    went(shop)
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert (shop.database.rows(ROWS), shop.database.rows(MADE)) == (before, schema)


@pytest.mark.parametrize("options", ["STRICT", "WITHOUT ROWID", "STRICT, WITHOUT ROWID"])
def test_a_table_with_options_keeps_them_and_its_values(shop: Project, options: str) -> None:
    kind = "any" if "STRICT" in options else "text"
    shop.database.run(
        f"CREATE TABLE orders (id integer PRIMARY KEY, name {kind}, old {kind}) {options}",
        "INSERT INTO orders VALUES (1, '1', '1'), (2, 1, 1), (3, 1.5, x'00')",
    )
    before, schema = shop.database.rows(ROWS), shop.database.rows(MADE)
    went(shop)
    assert all(options in str(made) for (made,) in shop.database.rows(MADE))
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert (shop.database.rows(ROWS), shop.database.rows(MADE)) == (before, schema)


def test_of_the_other_columns_a_contract_changes_nothing(shop: Project) -> None:
    """A rebuild by what SQLAlchemy reads of a table would take the COLLATE away."""
    shop.database.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, name text COLLATE NOCASE UNIQUE, old text)", TWO
    )
    went(shop)
    assert shop.database.value("SELECT count(*) FROM orders WHERE name = 'ORDER 1'") == 1


def test_rows_without_a_key_do_not_lose_their_values(shop: Project) -> None:
    """SQLite lets a primary key be NULL."""
    shop.database.run(
        "CREATE TABLE orders (id text PRIMARY KEY, name text, old text)",
        "INSERT INTO orders VALUES (NULL, 'one', 'a'), (NULL, 'two', 'b'), ('x', 'three', 'c')",
    )
    assert_refused(shop, "2 rows of orders have no value in id")


@pytest.mark.parametrize("index", ["SELECT 1", "CREATE UNIQUE INDEX some ON orders (name) WHERE id < 0"])
def test_a_key_that_does_not_tell_rows_apart_is_refused(shop: Project, index: str) -> None:
    shop.database.run(ORDERS, TWO, "UPDATE orders SET name = 'same'", index)
    shop.edit(CONTRACT, ("columns=COLUMNS", "columns=COLUMNS, keys={'orders': ['name']}"))
    assert_refused(shop, "orders (name) is no key")


def test_a_key_of_ones_own_is_one(shop: Project) -> None:
    shop.database.run(ORDERS, TWO, "CREATE UNIQUE INDEX by_name ON orders (NAME)")
    shop.edit(CONTRACT, ("columns=COLUMNS", "columns=COLUMNS, keys={'orders': ['name']}"))
    before = shop.database.rows(ROWS)
    went(shop)
    assert back(shop).returncode == 0
    assert shop.database.rows(ROWS) == before


@pytest.mark.parametrize(
    "change", ["DELETE FROM orders WHERE id = 2", "UPDATE orders SET id = 20 WHERE id = 2"]
)
def test_rows_that_went_since_are_counted_in_a_warning(shop: Project, change: str) -> None:
    shop.database.run(ORDERS, TWO)
    went(shop)
    shop.database.run(change)
    down = back(shop, "-x", "force=without derived")
    assert down.returncode == 0, down.stderr
    assert "the dropped values of one row of orders were not restored" in down.stderr


@pytest.mark.parametrize("what", ["columns", "table"])
def test_an_archive_that_has_lost_its_rows_is_refused(shop: Project, what: str) -> None:
    if what == "table":
        shop.edit(
            CONTRACT,
            ("TABLES = []", 'TABLES = ["orders"]'),
            ('COLUMNS = {"orders": ["old"]}', "COLUMNS = {}"),
        )
    shop.database.run(ORDERS, TWO)
    went(shop)
    shop.database.run(f"DELETE FROM {COPY if what == 'columns' else 'pipestate_archive_orders'}")
    down = back(shop)
    assert down.returncode != 0, "nothing was said"
    assert "every dropped row of" in down.stderr
    assert shop.database.value("SELECT version_num FROM alembic_version") == "b2"
    assert back(shop, "-x", "force=they are gone").returncode == 0


@pytest.mark.parametrize(
    "reader",
    [
        "CREATE VIEW shown AS SELECT OLD FROM ORDERS",
        "CREATE TRIGGER told AFTER UPDATE ON orders BEGIN INSERT INTO log VALUES (new.OLD); END",
    ],
)
def test_who_reads_a_column_in_capitals_reads_it(shop: Project, reader: str) -> None:
    shop.database.run(ORDERS, TWO, "CREATE TABLE log (x)", reader)
    assert_refused(shop, "old cannot be dropped while others depend on it")


def test_a_view_that_reads_a_column_through_another_view_reads_it(shop: Project) -> None:
    shop.database.run(ORDERS, TWO, "CREATE VIEW every AS SELECT * FROM orders")
    shop.database.run("CREATE VIEW shown AS SELECT old FROM every")
    assert_refused(shop, "old of orders cannot be dropped while others depend on it: error in view shown")


def test_a_name_that_ends_in_a_sign_is_found_in_views(shop: Project) -> None:
    shop.database.run(
        'CREATE TABLE orders (id integer PRIMARY KEY, old text, "share%" text)',
        "INSERT INTO orders VALUES (1, 'a', '5')",
        'CREATE VIEW shown AS SELECT "share%" FROM orders',
    )
    shop.edit(CONTRACT, ('["old"]', '["share%"]'))
    assert_refused(shop, "share% cannot be dropped while others depend on it: view shown")


def test_a_trigger_does_not_fire_for_rows_that_only_come_back(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, name text, old text, changed_at text)",
        "CREATE TRIGGER changes AFTER UPDATE ON orders BEGIN "
        "UPDATE orders SET changed_at = 'now' WHERE id = new.id; END",
        "INSERT INTO orders VALUES (1, 'one', 'a', '2020'), (2, 'two', 'b', '2021')",
    )
    before, schema = shop.database.rows(ROWS), shop.database.rows(MADE)
    went(shop)
    assert back(shop).returncode == 0
    assert (shop.database.rows(ROWS), shop.database.rows(MADE)) == (before, schema)


def test_a_restore_that_fails_has_changed_nothing(shop: Project) -> None:
    """The driver by itself would have committed the new column before the first row is written."""
    shop.database.run(ORDERS, TWO)
    shop.edit(CONTRACT, ("columns=COLUMNS", "columns=COLUMNS, derived={'orders': {'old': 'json(s.name)'}}"))
    went(shop)
    left = shop.database.rows(MADE)
    shop.database.run("INSERT INTO orders (id, name) VALUES (3, 'no JSON')")
    assert back(shop).returncode != 0
    assert shop.database.rows(MADE) == left
    assert shop.database.value(f"SELECT count(*) FROM {COPY}") == 2


# --- With foreign_keys on ---------------------------------------------------------------------------

MIDDLE = "id integer PRIMARY KEY, old text, name text"
NAMED = f"{MIDDLE}, UNIQUE (name, old)"  # dropped by a rebuild
CHILDREN = {
    "cascade": ("parts", "REFERENCES orders ON DELETE CASCADE"),
    "set null": ("parts", "REFERENCES orders ON DELETE SET NULL"),
    "in capitals": ("parts", "REFERENCES ORDERS (ID) ON DELETE CASCADE"),
    "itself": ("orders", "REFERENCES orders ON DELETE CASCADE"),
}


def switch_foreign_keys_on(project: Project, *, begun: bool = False) -> None:
    """Have env.py switch them on; `begun`: and begin each transaction, in which nothing switches them off."""
    made = "engine = create_engine(url)\n    event.listen(engine, 'connect', lambda driver, _: driver.execute('PRAGMA foreign_keys = ON'))\n"
    if begun:
        made += "    event.listen(engine, 'begin', lambda connection: connection.exec_driver_sql('BEGIN'))\n"
    project.edit(
        "migrations/env.py",
        ("import create_engine", "import create_engine, event"),
        ("with create_engine(url).connect()", f"{made}    with engine.connect()"),
    )


def make_family(shop: Project, kind: str, columns: str) -> tuple[str, list[tuple[object, ...]]]:
    """Make orders with children; return the query that reads those, and its rows."""
    table, reference = CHILDREN[kind]
    if table == "orders":
        head, comma, constraint = columns.partition(", UNIQUE")
        columns = f"{head}, order_id integer {reference}{comma}{constraint}"
    else:
        shop.database.run(f"CREATE TABLE parts (id integer PRIMARY KEY, order_id integer {reference})")
    shop.database.run(f"CREATE TABLE orders ({columns})")
    shop.database.run("INSERT INTO orders (id, name, old) VALUES (1, 'one', 'a'), (2, 'two', 'b')")
    if table == "orders":
        shop.database.run("UPDATE orders SET order_id = 1")
    else:
        shop.database.run("INSERT INTO parts VALUES (1, 1), (2, 2)")
    made = f"(SELECT max(sql) FROM sqlite_master WHERE name = '{table}' AND name <> 'orders')"
    query = f"SELECT id, order_id, {made} FROM {table} ORDER BY id"
    return query, shop.database.rows(query)


@pytest.mark.parametrize("kind", CHILDREN)
@pytest.mark.parametrize("columns", [MIDDLE, NAMED], ids=["in place", "by a rebuild"])
def test_rows_that_point_at_a_rebuilt_table_stay(shop: Project, kind: str, columns: str) -> None:
    query, children = make_family(shop, kind, columns)
    before, schema = shop.database.rows(ROWS), shop.database.rows(MADE)
    switch_foreign_keys_on(shop)
    went(shop)
    assert shop.database.rows(query) == children
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert shop.database.rows(query) == children
    assert (shop.database.rows(ROWS), shop.database.rows(MADE)) == (before, schema)


LEFT_OVER = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'pipestate%'"


@pytest.mark.parametrize("kind", CHILDREN)
@pytest.mark.parametrize("columns", [MIDDLE, NAMED], ids=["in place", "by a rebuild"])
def test_the_whole_way_down_through_the_guard_brings_all_back_and_removes_the_ledger(
    shop: Project, kind: str, columns: str
) -> None:
    """As zenml does: foreign_keys on for each connection, the guard, batches, and a downgrade to base."""
    query, children = make_family(shop, kind, columns)
    before, schema = shop.database.rows(ROWS), shop.database.rows(MADE)
    shop.use_environment("guarded")
    shop.edit("migrations/env.py", ("connection=connection)", "connection=connection, render_as_batch=True)"))
    switch_foreign_keys_on(shop)
    went(shop)
    down = shop.alembic("downgrade", "base")
    assert down.returncode == 0, down.stderr
    assert "no gate was asked" not in down.stderr
    assert shop.database.rows(query) == children
    assert (shop.database.rows(ROWS), shop.database.rows(MADE)) == (before, schema)
    kept = shop.database.value("SELECT count(*) FROM sqlite_master WHERE name = 'pipestate_run'")
    assert kept == 0 or "ledger" in down.stderr, down.stderr
    assert kept or shop.database.value(LEFT_OVER) == 0


def test_a_ledger_without_records_is_removed_through_the_guard(shop: Project) -> None:
    shop.database.run("DELETE FROM pipestate.run", ORDERS, TWO)
    shop.use_environment("guarded")
    down = shop.alembic("downgrade", "base")
    assert down.returncode == 0, down.stderr
    assert shop.database.value(LEFT_OVER) == 0
    assert shop.database.value("SELECT count(*) FROM orders") == 2


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_rebuild_in_a_transaction_that_enforces_foreign_keys_is_refused(shop: Project, kind: str) -> None:
    query, children = make_family(shop, kind, NAMED)
    stock = shop.read("migrations/env.py")
    switch_foreign_keys_on(shop, begun=True)
    assert_refused(shop, "with foreign_keys on deletes or changes the rows of")
    shop.write("migrations/env.py", stock)
    went(shop)
    switch_foreign_keys_on(shop, begun=True)
    left = shop.database.rows(MADE)
    down = back(shop)
    assert down.returncode != 0, "it was not refused"
    assert "set PRAGMA foreign_keys = OFF on the connection before the migration begins" in down.stderr
    assert (shop.database.rows(MADE), shop.database.rows(query)) == (left, children)


def test_one_transaction_for_the_whole_run_loses_no_row_either(shop: Project) -> None:
    query, children = make_family(shop, "cascade", NAMED)
    switch_foreign_keys_on(shop)
    shop.edit("migrations/env.py", ("transaction_per_migration=True", "transaction_per_migration=False"))
    before = shop.database.rows(ROWS)
    went(shop)
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert (shop.database.rows(query), shop.database.rows(ROWS)) == (children, before)


@pytest.mark.parametrize("keep", [True, False])
def test_a_column_drops_in_place_in_any_transaction(shop: Project, keep: bool) -> None:
    query, children = make_family(shop, "cascade", MIDDLE)
    switch_foreign_keys_on(shop, begun=True)
    shop.edit(CONTRACT, ("columns=COLUMNS", f"columns=COLUMNS, keep={keep}"))
    went(shop)
    assert shop.database.rows(query) == children


def test_a_drop_for_good_does_not_delete_rows_of_a_table_that_stays(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE kinds (id integer PRIMARY KEY)",
        "CREATE TABLE orders (id integer PRIMARY KEY, old integer)",
        "ALTER TABLE orders ADD COLUMN kind_id integer REFERENCES kinds ON DELETE CASCADE",
        "INSERT INTO kinds VALUES (1)",
        "INSERT INTO orders VALUES (1, 1, 1), (2, 1, 1)",
    )
    switch_foreign_keys_on(shop, begun=True)
    shop.edit(
        CONTRACT,
        ("TABLES = []", 'TABLES = ["kinds"]'),
        ('["old"]', '["kind_id"]'),
        ("columns=COLUMNS", "columns=COLUMNS, keep=False"),
    )
    went(shop)
    assert shop.database.value("SELECT count(*) FROM orders") == 2


def test_restored_values_that_point_at_deleted_rows_are_said(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE kinds (id integer PRIMARY KEY)",
        "CREATE TABLE orders (id integer PRIMARY KEY, old integer REFERENCES kinds, name text)",
        "INSERT INTO kinds VALUES (1), (2)",
        "INSERT INTO orders VALUES (1, 1, 'one'), (2, 2, 'two')",
    )
    switch_foreign_keys_on(shop)
    went(shop)
    shop.database.run("DELETE FROM kinds WHERE id = 2")
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert "one row of orders point at rows of kinds that do not exist" in down.stderr


# --- What happened to the table since ----------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        "id integer PRIMARY KEY, name text, old text DEFAULT 'd' UNIQUE",
        "id integer PRIMARY KEY, name text, old text DEFAULT 'd', CHECK (old <> 'd' OR name = 'order 1')",
    ],
)
def test_a_constraint_that_new_rows_break_is_said_and_loses_no_row(shop: Project, made: str) -> None:
    shop.database.run(f"CREATE TABLE orders ({made})", TWO)
    went(shop)
    shop.database.run("INSERT INTO orders VALUES (3, 'same'), (4, 'same')")
    down = back(shop, "-x", "force=without derived")
    assert down.returncode == 0, down.stderr
    assert "orders has rows that break its old definition" in down.stderr
    assert shop.database.rows("SELECT id, old FROM orders ORDER BY id") == [
        (1, "a"),
        (2, "b"),
        (3, "d"),
        (4, "d"),
    ]


def test_a_unique_index_that_new_rows_break_is_said(shop: Project) -> None:
    shop.database.run(ORDERS.replace("old text", "old text DEFAULT 'd'"), TWO)
    shop.database.run(
        "CREATE UNIQUE INDEX by_old ON orders (old)", "CREATE INDEX plain ON orders (old, name)"
    )
    went(shop)
    shop.database.run("INSERT INTO orders VALUES (3, 'x'), (4, 'y')")
    down = back(shop, "-x", "force=without derived")
    assert down.returncode == 0, down.stderr
    assert "index by_old was not restored, because rows break it" in down.stderr
    assert shop.database.value("SELECT count(*) FROM sqlite_master WHERE name = 'plain'") == 1


def test_an_index_of_the_same_name_made_since_stays(shop: Project) -> None:
    shop.database.run(ORDERS, TWO, "CREATE INDEX by_it ON orders (old)")
    went(shop)
    shop.database.run("CREATE INDEX by_it ON orders (name)")
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert "another index has the name by_it" in down.stderr
    made = shop.database.value("SELECT sql FROM sqlite_master WHERE name = 'by_it'")
    assert made == "CREATE INDEX by_it ON orders (name)"


def test_triggers_stay_as_they_are_now(shop: Project) -> None:
    trigger = "CREATE TRIGGER {} AFTER INSERT ON orders BEGIN SELECT {}; END"
    shop.database.run(ORDERS, TWO, trigger.format("changed", 1), trigger.format("deleted", 1))
    went(shop)
    shop.database.run("DROP TRIGGER changed", "DROP TRIGGER deleted", trigger.format("changed", 2))
    down = back(shop)
    assert down.returncode == 0, down.stderr
    triggers = shop.database.rows("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    assert triggers == [(trigger.format("changed", 2),)]


@pytest.mark.parametrize(
    "made",
    [
        "id integer PRIMARY KEY, old text, name text COLLATE NOCASE UNIQUE",
        "id integer PRIMARY KEY AUTOINCREMENT, old text NOT NULL DEFAULT 'd' CHECK (old <> ''), name text",
        "id integer PRIMARY KEY, old text, name text, UNIQUE (name, old)",
    ],
)
def test_columns_added_since_stay_and_nothing_else_changes(shop: Project, made: str) -> None:
    shop.database.run(
        f"CREATE TABLE orders ({made})", "INSERT INTO orders (id, name, old) VALUES (1, 'one', 'a')"
    )
    (schema,) = shop.database.rows(MADE)
    went(shop)
    shop.database.run(
        "ALTER TABLE orders ADD COLUMN more text DEFAULT ', x)'",
        "ALTER TABLE orders ADD COLUMN up text GENERATED ALWAYS AS (upper(name)) VIRTUAL",
    )
    shop.database.run("UPDATE orders SET more = 'm'")
    down = back(shop)
    assert (down.returncode, down.stderr) == (0, "")
    added = ", more text DEFAULT ', x)', up text GENERATED ALWAYS AS (upper(name)) VIRTUAL"
    head, comma, constraint = str(schema[0]).removesuffix(")").partition(", UNIQUE (")
    assert shop.database.rows(MADE) == [(f"{head}{added}{comma}{constraint})",)]
    assert shop.database.rows("SELECT id, name, old, more, up FROM orders") == [(1, "one", "a", "m", "ONE")]


def test_views_and_triggers_of_other_tables_stay_as_they_are(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, old text, name text)",
        "INSERT INTO orders VALUES (1, 'a', 'one')",
        "CREATE VIEW shown AS SELECT name FROM orders",
        "CREATE TABLE other (x integer)",
        "CREATE TRIGGER writes AFTER INSERT ON other BEGIN UPDATE orders SET name = new.x; END",
    )
    query = "SELECT sql FROM sqlite_master WHERE name IN ('shown', 'writes') ORDER BY name"
    before = shop.database.rows(query)
    went(shop)
    assert back(shop).returncode == 0
    assert shop.database.rows(query) == before
    shop.database.run("INSERT INTO other VALUES (7)")
    assert shop.database.rows("SELECT * FROM shown") == [("7",)]


@pytest.mark.parametrize("collated", ["", " COLLATE NOCASE"])
def test_a_table_that_changed_otherwise_takes_what_it_can_and_a_warning_says_the_rest(
    shop: Project, collated: str
) -> None:
    shop.database.run(
        f"CREATE TABLE orders (id integer PRIMARY KEY, old text NOT NULL DEFAULT 'd', name text{collated}, more text)",
        "INSERT INTO orders VALUES (1, 'a', 'one', 'm')",
    )
    went(shop)
    shop.database.run("ALTER TABLE orders DROP COLUMN more")
    down = back(shop)
    assert down.returncode == 0, down.stderr
    restored = "type" if collated else "type, default and NOT NULL"
    assert f"of its columns old only {restored} came back" in down.stderr
    assert shop.database.rows("SELECT id, name, old FROM orders WHERE name = 'one'") == [(1, "one", "a")]
    assert shop.database.value("SELECT count(*) FROM orders WHERE name = 'ONE'") == bool(collated)
    shop.database.run("INSERT INTO orders (id) VALUES (2)")
    assert shop.database.value("SELECT old FROM orders WHERE id = 2") == (None if collated else "d")


def test_columns_named_by_words_of_sqlite_come_back(shop: Project) -> None:
    shop.database.run(
        'CREATE TABLE orders ("key" integer PRIMARY KEY, "index" text, "a.b" text)',
        "INSERT INTO orders VALUES (1, 'a', 'b')",
    )
    shop.edit(CONTRACT, ('["old"]', '["index", "a.b"]'))
    went(shop)
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert shop.database.rows("SELECT * FROM orders") == [(1, "a", "b")]


@pytest.mark.parametrize("quote", ["''", '""', "``", "[]"])
def test_names_in_any_quotes_come_back_so(shop: Project, quote: str) -> None:
    start, end = quote[0], quote[1]
    made = f"CREATE TABLE {start}my orders{end} ({start}id{end} integer PRIMARY KEY, {start}old{end} text, name text)"
    shop.database.run(made, "INSERT INTO \"my orders\" VALUES (1, 'a', 'one')")
    shop.edit(CONTRACT, ('{"orders": ["old"]}', '{"my orders": ["old"]}'))
    went(shop)
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert shop.database.value("SELECT sql FROM sqlite_master WHERE name = 'my orders'") == made
    assert shop.database.rows('SELECT * FROM "my orders"') == [(1, "a", "one")]


def test_a_key_without_case_finds_its_row_under_another_case(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE orders (id text COLLATE NOCASE PRIMARY KEY, old text, name text)",
        "INSERT INTO orders VALUES ('a', '1', 'one'), ('b', '2', 'two')",
    )
    went(shop)
    shop.database.run("UPDATE orders SET id = 'A' WHERE id = 'a'")
    down = back(shop, "-x", "force=without derived")
    assert down.returncode == 0, down.stderr
    assert shop.database.rows("SELECT id, old FROM orders ORDER BY id") == [("A", "1"), ("b", "2")]


def test_keys_that_differ_only_by_case_are_two(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE orders (id text COLLATE NOCASE, old text, name text)",
        "CREATE UNIQUE INDEX by_id ON orders (id COLLATE BINARY)",
        "INSERT INTO orders VALUES ('a', '1', 'one'), ('A', '2', 'two')",
    )
    shop.edit(CONTRACT, ("columns=COLUMNS", "columns=COLUMNS, keys={'orders': ['id']}"))
    went(shop)
    down = back(shop)
    assert (down.returncode, down.stderr) == (0, "")
    assert shop.database.rows("SELECT id, old FROM orders ORDER BY old") == [("a", "1"), ("A", "2")]


@pytest.mark.parametrize(
    ("made", "lost"),
    [
        ("id integer PRIMARY KEY, old text, up text AS (upper(old))", "computed columns"),
        ("id integer PRIMARY KEY, old text, n text, up text AS (n), UNIQUE (n, old)", "computed columns"),
        ("id integer PRIMARY KEY, old text, n text COLLATE NOCASE, UNIQUE (n, old)", "COLLATE"),
        ("id integer PRIMARY KEY, old text UNIQUE ON CONFLICT REPLACE", "ON CONFLICT"),
        ("id integer PRIMARY KEY, old text, n text, UNIQUE (n, old) ON CONFLICT IGNORE", "ON CONFLICT"),
        ("id integer PRIMARY KEY, old text, 'n' text UNIQUE, UNIQUE (n, old)", "names in single quotes"),
    ],
)
def test_a_rebuild_that_would_lose_something_is_refused(shop: Project, made: str, lost: str) -> None:
    shop.database.run(f"CREATE TABLE orders ({made})", "INSERT INTO orders (id, old) VALUES (1, 'a')")
    assert_refused(shop, f"the rebuild would lose {lost}")


def test_derived_rows_that_break_a_constraint_are_counted(shop: Project) -> None:
    shop.database.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, old text CHECK (old <> ''), name text)",
        "INSERT INTO orders VALUES (1, 'a', 'one')",
        "CREATE TABLE newer (id integer PRIMARY KEY, old text)",
        "INSERT INTO newer VALUES (1, 'a')",
    )
    shop.edit(
        CONTRACT,
        ("import Contract", "import Contract\nfrom pipestate.ddl import DerivedRows"),
        ("TABLES = []", 'TABLES = ["orders"]'),
        ('COLUMNS = {"orders": ["old"]}', "COLUMNS = {}"),
        ("columns=COLUMNS", "columns=COLUMNS, derived={'orders': DerivedRows('newer', {'old': 's.old'})}"),
    )
    went(shop)
    shop.database.run("INSERT INTO newer VALUES (2, ''), (3, 'c')")
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert "one row of newer could not be derived: they break a constraint of orders" in down.stderr
    assert shop.database.rows("SELECT id, old FROM orders ORDER BY id") == [(1, "a"), (3, "c")]
