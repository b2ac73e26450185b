"""On SQLite, too, what a contract takes away comes back as it was, is refused before, or is told of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.attacked import Done
from attacks.contracts import CONTRACT, lay_out_contract, takes
from attacks.project import Project
from bed import Sqlite

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
    assert_refused(shop, "2 rows of orders have no id")


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
    down = back(shop)
    assert down.returncode == 0, down.stderr
    assert "nothing takes the archived values of one row of orders" in down.stderr


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
    assert "every row in the archive of" in down.stderr
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
    assert_refused(shop, "old cannot go while others depend on it")


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


def test_a_way_back_that_fails_has_changed_nothing(shop: Project) -> None:
    """The driver by itself would have committed the new column before the first row is written."""
    shop.database.run("CREATE TABLE orders (id integer PRIMARY KEY, name text, old text UNIQUE)", TWO)
    went(shop)
    left = shop.database.rows(MADE)
    shop.database.run(f"UPDATE {COPY} SET old = 'a'")
    assert back(shop).returncode != 0
    assert shop.database.rows(MADE) == left
    assert shop.database.value(f"SELECT count(*) FROM {COPY}") == 2
