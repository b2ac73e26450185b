"""Between a contract and its way back somebody has a hand in it: no archived value is lost without a word."""

import re

import pytest

from attacks.attacked import Done
from attacks.contracts import CONTRACT, contents, takes, takes_old
from attacks.project import Project
from attacks.psql import feed, from_every_statement, without_psql_commands

COPY = "pipestate_archive.orders_columns_b2"


def went(project: Project) -> list[tuple[object, ...]]:
    """Run the contract; return what was there before."""
    before = contents(project.database)
    up = project.alembic("upgrade", "head")
    assert up.returncode == 0, up.stderr
    return before


def back(project: Project, *options: str) -> Done:
    down = project.alembic(*options, "downgrade", "a1")
    assert "Traceback" not in down.stderr, down.stderr
    return down


def assert_back(project: Project, before: list[tuple[object, ...]], *options: str) -> None:
    down = back(project, *options)
    assert down.returncode == 0, down.stderr
    assert contents(project.database) == before


def assert_refused(project: Project, *words: str) -> None:
    """It says why, the version is the old one, and the copy is there with every value."""
    down = back(project)
    assert down.returncode != 0, "nothing was said"
    for each in words:
        assert each in down.stderr, down.stderr
    assert project.database.value("SELECT version_num FROM alembic_version") == "b2"


def kept(project: Project) -> list[tuple[object, ...]]:
    return project.database.rows(f"SELECT id, old::text FROM {COPY} ORDER BY id")


# --- A column that is there again ------------------------------------------------------------------


def test_a_column_that_somebody_added_again_with_a_default_costs_no_value(contract: Project) -> None:
    takes_old(contract, "text", "'a'", "'b'", "NULL")
    before = went(contract)
    contract.database.run("ALTER TABLE orders ADD old text NOT NULL DEFAULT 'x'")
    assert_refused(contract, "3 rows of orders", "DROP COLUMN old", "-x force=")
    assert kept(contract) == [(1, "a"), (2, "b"), (3, None)]
    contract.database.run("ALTER TABLE orders DROP COLUMN old")
    assert_back(contract, before)


def test_forced_what_somebody_wrote_into_it_stays(contract: Project) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    went(contract)
    contract.database.run("ALTER TABLE orders ADD old text NOT NULL DEFAULT 'x'")
    down = back(contract, "-x", "force=the defaults are right")
    assert down.returncode == 0, down.stderr
    assert "2 rows of orders" in down.stderr
    assert contents(contract.database) == [('(1,"order 1",x)',), ('(2,"order 2",x)',)]


@pytest.mark.parametrize("fill", ["SELECT 1", "UPDATE orders SET old = 'a' WHERE id = 1"])
def test_a_column_that_is_there_again_empty_or_right_is_filled(contract: Project, fill: str) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    before = went(contract)
    contract.database.run("ALTER TABLE orders ADD old text", fill)
    assert_back(contract, before)


@pytest.mark.parametrize("kind", ["int", "varchar(1)", "text GENERATED ALWAYS AS (name) STORED"])
def test_a_column_that_is_there_again_as_another_one_is_refused(contract: Project, kind: str) -> None:
    takes_old(contract, "text", "'aa'", "'bb'")
    before = went(contract)
    contract.database.run(f"ALTER TABLE orders ADD old {kind}")
    assert_refused(contract, "orders has old again", "DROP COLUMN old")
    contract.database.run("ALTER TABLE orders DROP COLUMN old")
    assert_back(contract, before)


def test_of_two_columns_the_one_that_nobody_added_comes_back(contract: Project) -> None:
    contract.database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, old text, older text)",
        "INSERT INTO orders VALUES (1, 'a', 'b'), (2, NULL, 'c'), (3, 'd', NULL)",
    )
    takes(contract, columns='{"orders": ["old", "older"]}')
    before = went(contract)
    contract.database.run("ALTER TABLE orders ADD old text", "UPDATE orders SET old = 'a' WHERE id = 1")
    assert_back(contract, before)


# --- A table that is there again -------------------------------------------------------------------

LOG = (
    "CREATE TABLE names (name text PRIMARY KEY)",
    "INSERT INTO names VALUES ('a')",
    "CREATE TABLE order_log (id int PRIMARY KEY, note text CONSTRAINT named REFERENCES names)",
    "INSERT INTO order_log VALUES (1, 'a')",
)


def test_after_a_purge_a_table_that_somebody_made_is_not_taken_for_the_archived_one(
    contract: Project,
) -> None:
    contract.database.run(*LOG)
    takes(contract, tables='["order_log"]')
    assert contract.alembic("upgrade", "head").returncode == 0
    assert contract.pipestate("purge", "--older-than", "0m", "--yes").returncode == 0
    contract.database.run("CREATE TABLE order_log (id int PRIMARY KEY, note text)")
    assert_refused(contract, "the archive of order_log is gone")
    down = back(contract, "-x", "force=an empty one will do")
    assert down.returncode == 0, down.stderr
    assert contract.database.value("SELECT count(*) FROM order_log") == 0


# --- A table that is another one, or has other rows ------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE orders RENAME TO orders_of_old",
        "CREATE SCHEMA away; ALTER TABLE orders SET SCHEMA away",
        "ALTER TABLE orders RENAME TO orders_of_old; CREATE TABLE orders (id int PRIMARY KEY, name text)",
        "ALTER TABLE orders RENAME TO orders_of_old; CREATE TABLE orders (id int PRIMARY KEY, name text); "
        "INSERT INTO orders VALUES (7, 'order 7')",
        "UPDATE orders SET id = id + 1000",
        "TRUNCATE orders",
    ],
)
def test_a_table_that_has_none_of_the_archived_rows_is_refused(contract: Project, change: str) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    went(contract)
    contract.database.run(*change.split("; "))
    assert_refused(contract, "orders")
    assert kept(contract) == [(1, "a"), (2, "b")]


def test_a_namesake_in_another_schema_takes_nothing(contract: Project) -> None:
    """Of two schemas with the same tables and keys, each on the search_path of one run."""
    takes_old(contract, "text", "'a'", "'b'")
    before = went(contract)
    name = contract.database.url.database
    contract.database.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.orders AS SELECT * FROM orders",
        "ALTER TABLE other.orders ADD PRIMARY KEY (id)",
        f"ALTER DATABASE {name} SET search_path = other, public",
    )
    assert_refused(contract, "is from the schema public")
    contract.database.run(f"ALTER DATABASE {name} RESET search_path")
    assert_back(contract, before)


@pytest.mark.parametrize("what", ["tables", "columns"])
def test_a_schema_for_each_tenant_and_one_archive(contract: Project, what: str) -> None:
    """The second tenant is told whose archive stands in the way, and neither moves what is the other's."""
    takes_old(contract, "text", "'a'")
    if what == "tables":
        contract.edit(CONTRACT, ("TABLES = []", 'TABLES = ["orders"]'), ('{"orders": ["old"]}', "{}"))
    database, name = contract.database, contract.database.url.database
    database.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.orders (id int PRIMARY KEY, name text, old text)",
        "INSERT INTO other.orders VALUES (1, 'order 1', 'other')",
        "CREATE TABLE other.alembic_version AS SELECT * FROM alembic_version",
    )
    before = went(contract)
    database.run(f"ALTER DATABASE {name} SET search_path = other")
    up = contract.alembic("upgrade", "head")
    assert up.returncode != 0
    assert "exists already, archived from the schema public" in up.stderr
    assert database.rows("SELECT old FROM other.orders") == [("other",)]
    database.run("UPDATE other.alembic_version SET version_num = 'b2'")
    assert "is from the schema public" in back(contract).stderr
    database.run(f"ALTER DATABASE {name} RESET search_path")
    assert_back(contract, before)


def test_rows_that_went_since_are_counted_in_a_warning(contract: Project) -> None:
    takes_old(contract, "text", "'a'", "'b'", "'c'")
    before = went(contract)
    contract.database.run("DELETE FROM orders WHERE id = 2")
    down = back(contract)
    assert down.returncode == 0, down.stderr
    assert "one row of orders" in down.stderr
    assert contents(contract.database) == [before[0], before[2]]


@pytest.mark.parametrize("what", ["tables", "columns"])
def test_an_archive_that_has_lost_its_rows_is_refused(contract: Project, what: str) -> None:
    """A dump without the data of the archive, say."""
    takes_old(contract, "text", "'a'", "'b'")
    if what == "tables":
        contract.edit(CONTRACT, ("TABLES = []", 'TABLES = ["orders"]'), ('{"orders": ["old"]}', "{}"))
    assert contract.alembic("upgrade", "head").returncode == 0
    contract.database.run(f"TRUNCATE {COPY if what == 'columns' else 'pipestate_archive.orders'}")
    assert_refused(contract, "is gone")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE orders ALTER id TYPE text",
        "CREATE TABLE all_orders (id int PRIMARY KEY, name text) PARTITION BY RANGE (id); "
        "ALTER TABLE all_orders ATTACH PARTITION orders DEFAULT",
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
        "ALTER TABLE orders RENAME id TO number",
        "CREATE PUBLICATION told FOR TABLE orders; ALTER TABLE orders REPLICA IDENTITY NOTHING",
    ],
)
def test_what_became_of_the_table_since_costs_no_value(contract: Project, change: str) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    went(contract)
    contract.database.run(*change.split("; "))
    down = back(contract)
    if down.returncode == 0:
        assert contract.database.rows("SELECT old FROM orders ORDER BY 1") == [("a",), ("b",)]
    else:
        assert kept(contract) == [(1, "a"), (2, "b")]


# --- The contract once more, and the purge ---------------------------------------------------------


@pytest.mark.parametrize("each", ["True", "False"])
def test_a_contract_that_runs_again_over_its_own_archive_drops_nothing_of_it(
    contract: Project, each: str
) -> None:
    """Somebody stamps the revision before, and adds the column in his own way."""
    takes_old(contract, "text", "'a'", "'b'")
    contract.edit(
        "migrations/env.py",
        ("transaction_per_migration=True", f"transaction_per_migration={each}"),
    )
    went(contract)
    assert contract.alembic("stamp", "a1").returncode == 0
    contract.database.run("ALTER TABLE orders ADD old text DEFAULT 'x'")
    up = contract.alembic("upgrade", "head")
    assert up.returncode != 0
    assert "DROP TABLE" not in up.stderr
    assert COPY in up.stderr
    assert kept(contract) == [(1, "a"), (2, "b")]


def test_a_purge_leaves_what_is_on_its_way_back(contract: Project) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    before = went(contract)
    contract.database.run("ALTER TABLE orders ADD old text", "UPDATE orders SET old = 'x' WHERE id = 1")
    assert_refused(contract, "one row of orders")
    purged = contract.pipestate("purge", "--older-than", "0m", "--yes")
    assert purged.returncode == 2, purged.stderr
    assert "Traceback" not in purged.stderr
    contract.database.run("ALTER TABLE orders DROP COLUMN old")
    assert_back(contract, before)


# --- A way back that psql runs ---------------------------------------------------------------------

# A trigger that lets no row be written: the values cannot come back.
STUBBORN = (
    "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TRIGGER keep BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION keep()",
    "ALTER TABLE orders ENABLE ALWAYS TRIGGER keep",
)
IN_THE_WAY = ("CREATE TABLE orders (id int PRIMARY KEY)",)


@pytest.mark.parametrize("together", [False, True], ids=["each its transaction", "one transaction"])
def test_a_psqlrc_with_on_error_rollback_does_not_stamp_a_way_back_that_failed(
    contract: Project, together: bool
) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    if together:
        contract.edit("migrations/env.py", (", transaction_per_migration=True", ""))
    went(contract)
    contract.database.run(*STUBBORN)
    script = contract.alembic("downgrade", "b2:a1", "--sql").stdout
    feed(contract.database, "\\set ON_ERROR_ROLLBACK on\n" + script)
    assert contract.database.value("SELECT version_num FROM alembic_version") == "b2"
    assert kept(contract) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "client", ["goes on", "has no transaction", "rolls back by itself", "is pasted in parts"]
)
@pytest.mark.parametrize("together", [False, True], ids=["each its transaction", "one transaction"])
@pytest.mark.parametrize("what", ["columns", "table"])
def test_a_script_that_goes_on_after_an_error_forgets_no_archive(
    contract: Project, what: str, together: bool, client: str
) -> None:
    """And does not know psql's commands. What it stamps is wrong; the archive stays, and no later one takes its place."""
    takes_old(contract, "text", "'a'", "'b'")
    if what == "table":
        contract.edit(
            CONTRACT,
            ("TABLES = []", 'TABLES = ["orders"]'),
            ('COLUMNS = {"orders": ["old"]}', "COLUMNS = {}"),
        )
    if together:
        contract.edit("migrations/env.py", (", transaction_per_migration=True", ""))
    before = went(contract) if what == "columns" else contents(contract.database)
    if what == "table":
        assert contract.alembic("upgrade", "head").returncode == 0
    contract.database.run(*(STUBBORN if what == "columns" else IN_THE_WAY))
    script = without_psql_commands(contract.alembic("downgrade", "b2:a1", "--sql").stdout)
    bare = re.sub(r"^(BEGIN|COMMIT);$", "", script, flags=re.MULTILINE)
    parts = {
        "goes on": [script],
        "has no transaction": [bare],
        "rolls back by itself": ["\\set ON_ERROR_ROLLBACK on\n" + script],
        "is pasted in parts": [rest for _, rest in from_every_statement(script)],
    }
    for part in parts[client]:
        feed(contract.database, part)
    contract.database.run("UPDATE alembic_version SET version_num = 'a1'")
    again = contract.alembic("upgrade", "head")
    assert again.returncode != 0, "the archive is forgotten"
    assert "exists already, archived from" in again.stderr or "which does not exist" in again.stderr
    contract.database.run("UPDATE alembic_version SET version_num = 'b2'")
    contract.database.run("DROP TRIGGER keep ON orders" if what == "columns" else "DROP TABLE orders")
    assert_back(contract, before)
