"""Contracts in somebody else's project, without a ledger and under an env.py of its own."""

import logging
from pathlib import Path
from typing import Any

import pytest
from alembic import command

from bed import Database, Sqlite
from contracted import ScriptFailed, lay_out
from pipestate import Contract
from pipestate.ddl import DerivedRows, postgresql
from pipestate.ddl.contract_parts import GoingColumns
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.postgresql import batches
from pipestate.gate import GateClosed

ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, total numeric, old_status text DEFAULT 'new', changed timestamp)",
    "INSERT INTO orders VALUES (1, 1.0, 'paid', '2025-01-01'), (2, 2.50, NULL, NULL), (3, 3, 'weird', '9999-12-31')",
    "CREATE TABLE order_log (id int PRIMARY KEY, order_id int REFERENCES orders, said text)",
    "INSERT INTO order_log VALUES (1, 1, 'made'), (2, 3, 'lost')",
)
COLUMNS = {"orders": ["old_status"]}
ALL = "SELECT id, total, old_status FROM orders ORDER BY id"
LOG = "SELECT * FROM order_log ORDER BY id"


def make(database: Database) -> None:
    database.run(*ORDERS)


@pytest.mark.parametrize("how", ["per migration", "all at once"])
def test_tables_and_columns_go_and_come_back_on_both_engines(
    database: Database, tmp_path: Path, how: str
) -> None:
    make(database)
    before = database.rows(ALL), database.rows(LOG)
    project = lay_out(tmp_path, database, how, tables=["order_log"], columns=COLUMNS)
    project.upgrade()
    with pytest.raises(Exception, match="old_status"):
        database.rows(ALL)
    with pytest.raises(Exception, match="order_log"):
        database.rows(LOG)
    database.run("DELETE FROM orders WHERE id = 2", "INSERT INTO orders (id, total) VALUES (4, 9)")
    project.downgrade()
    assert database.rows(LOG) == before[1]
    assert database.rows(ALL) == [before[0][0], before[0][2], (4, 9, "new")], "a new row has the default"


def test_a_script_does_the_same(pg: Database, tmp_path: Path) -> None:
    make(pg)
    before = pg.rows(ALL), pg.rows(LOG)
    project = lay_out(tmp_path, pg, "script", tables=["order_log"], columns=COLUMNS)
    project.upgrade()
    assert pg.value("SELECT to_regclass('order_log') IS NULL") is True
    project.downgrade()
    assert (pg.rows(ALL), pg.rows(LOG)) == before


@pytest.mark.parametrize("how", ["per migration", "all at once", "script"])
def test_names_with_a_schema(pg: Database, tmp_path: Path, how: str) -> None:
    long = "l" * 63
    pg.run(
        "CREATE SCHEMA sales",
        'CREATE SCHEMA "My Shop"',
        f"CREATE SCHEMA {long}",
        *(
            f"CREATE TABLE {schema}.{table} (id int PRIMARY KEY, note text, gone text DEFAULT 'd')"
            for schema in ("public", "sales", '"My Shop"', long)
            for table in ("orders", "parts", long)
        ),
        *(
            f"INSERT INTO {schema}.{table} VALUES (1, '{table[:3]}', 'of {schema[:8]}')"
            for schema in ("public", "sales", '"My Shop"', long)
            for table in ("orders", "parts", long)
        ),
    )
    schemas = ("sales", "My Shop", long)
    query = " UNION ALL ".join(
        f"SELECT '{schema}', '{table}', t::text FROM \"{schema}\".{table} t"
        for schema in ("public", *schemas)
        for table in ("orders", "parts", long)
    )
    before = pg.rows(query)
    project = lay_out(
        tmp_path,
        pg,
        how,
        tables=["orders", *(f"{schema}.orders" for schema in schemas)],
        columns={
            "parts": ["gone"],
            **{f"{schema}.{table}": ["gone"] for schema in schemas for table in ("parts", long)},
        },
    )
    project.upgrade()
    assert pg.rows("SELECT oid::regclass::text FROM pg_class WHERE relname = 'orders' ORDER BY 1") != []
    assert (
        pg.value("SELECT to_regclass('sales.orders') IS NULL AND to_regclass('public.orders') IS NULL")
        is True
    )
    too_long = "SELECT count(*) FROM pg_class WHERE length(relname) > 63"
    assert pg.value(too_long) == 0
    project.downgrade()
    assert pg.rows(query) == before


def test_two_contracts_of_one_table_keep_apart(pg: Database, tmp_path: Path) -> None:
    pg.run("CREATE TABLE t (id int PRIMARY KEY, x int, y int)", "INSERT INTO t VALUES (1, 10, 100)")
    project = lay_out(tmp_path, pg, columns={"t": ["x"]})
    second = "from pipestate import Contract\nrevision, down_revision = 'c3', 'b2'\n"
    second += "contract = Contract('odd/ready', columns={'t': ['y']})\n"
    second += "upgrade, downgrade = contract.upgrade, contract.downgrade\n"
    (tmp_path / "migrations" / "versions" / "c3.py").write_text(second)
    page = tmp_path / "runbooks" / "odd.md"
    page.write_text(page.read_text().replace('until: "b2", opens: ["b2"]', 'opens: ["b2", "c3"]'))
    project.upgrade("c3")
    assert pg.rows("SELECT t::text FROM t") == [("(1)",)]
    command.downgrade(project.config(), "b2")
    assert pg.rows("SELECT t::text FROM t") == [("(1,100)",)]
    command.downgrade(project.config(), "a1")
    assert pg.rows("SELECT x, y FROM t") == [(10, 100)]


def test_a_closed_gate_leaves_everything_as_it_was(database: Database, tmp_path: Path) -> None:
    make(database)
    project = lay_out(tmp_path, database, tables=["order_log"], columns=COLUMNS)
    page = tmp_path / "runbooks" / "odd.md"
    page.write_text(page.read_text().replace("SELECT 1 AS", "SELECT 0 AS"))
    with pytest.raises(GateClosed, match="the gate odd/ready is closed"):
        project.upgrade()
    assert len(database.rows(ALL)) == 3
    assert len(database.rows(LOG)) == 2
    project.upgrade("b2", "force=it must go")
    project.downgrade()
    assert len(database.rows(LOG)) == 2


def purged(database: Database) -> None:
    dot = "_" if database.is_sqlite else "."
    database.run(
        f"DROP TABLE pipestate_archive{dot}order_log", f"DROP TABLE pipestate_archive{dot}orders_columns_b2"
    )


def test_after_a_purge_the_way_back_refuses(database: Database, tmp_path: Path) -> None:
    make(database)
    project = lay_out(
        tmp_path,
        database,
        tables=["order_log"],
        columns=COLUMNS,
        derived={"orders": {"old_status": "'derived'"}},
    )
    project.upgrade()
    purged(database)
    with pytest.raises(MigrationError, match=r"the archive of order_log is gone .*force='reason'"):
        project.downgrade()
    project.downgrade("a1", "force=we know")
    assert {row[2] for row in database.rows(ALL)} == {"derived"}
    with pytest.raises(Exception, match="order_log"):
        database.rows(LOG)


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        ({"tables": ["ordrs"]}, "ordrs, which does not exist"),
        ({"columns": {"orders": ["old_staus"]}}, "takes orders.old_staus away, which does not exist"),
        ({"columns": {"order_log": ["id"]}}, "rows are found again by it"),
        ({"columns": {"orders": ["total"]}, "keys": {"orders": ["changed"]}}, "is no key"),
    ],
)
@pytest.mark.parametrize("how", ["per migration", "all at once", "script"])
def test_wrong_names_are_refused_with_one_sentence(
    pg: Database, tmp_path: Path, contract: dict[str, Any], said: str, how: str
) -> None:
    make(pg)
    with pytest.raises((MigrationError, ScriptFailed), match=said):
        lay_out(tmp_path, pg, how, **contract).upgrade()
    assert len(pg.rows(ALL)) == 3


def test_what_is_gone_already_may_be_gone(database: Database, tmp_path: Path) -> None:
    make(database)
    project = lay_out(
        tmp_path, database, tables=["never_there"], columns={"orders": ["nor_this"]}, may_be_gone=True
    )
    project.upgrade()
    project.downgrade()
    assert len(database.rows(ALL)) == 3


FAULTS = {
    "names tables or columns": {},
    "write a list of names": {"tables": "orders"},
    "wants a list of names for each table": {"columns": {"orders": "old_status"}},
    "name it once": {"tables": ["orders"], "columns": {"orders": ["x"]}},
    "keys names parts, which does not go": {"tables": ["orders"], "keys": {"parts": "id"}},
    "write DerivedRows": {"tables": ["orders"], "derived": {"orders": {"x": "1"}}},
    "for columns write": {"columns": {"orders": ["x"]}, "derived": {"orders": DerivedRows("s", {})}},
    "names y, which does not go": {"columns": {"orders": ["x"]}, "derived": {"orders": {"y": "1"}}},
    "name both or none": {"columns": {"orders": ["x"]}, "changed_at": {"orders": "t"}},
}


@pytest.mark.parametrize(("said", "arguments"), FAULTS.items())
def test_a_contract_that_says_nothing_is_refused_as_it_is_written(
    said: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(MigrationError, match=said.removeprefix("names ")):
        Contract("orders/ready", **arguments)


# --- What changed since ----------------------------------------------------------------------------

DERIVED: dict[str, Any] = {
    "changed_at": {"orders": "changed"},
    "derived": {"orders": {"old_status": "'derived of ' || a.old_status"}},
}


@pytest.mark.parametrize("how", ["per migration", "all at once", "script"])
def test_a_row_has_changed_when_its_time_is_another_one_whatever_the_clocks_say(
    pg: Database, tmp_path: Path, how: str
) -> None:
    """Row 3 is ahead of every clock and untouched; row 1 is written by a clock that is behind."""
    make(pg)
    project = lay_out(tmp_path, pg, how, columns=COLUMNS, **DERIVED)
    project.upgrade()
    pg.run("UPDATE orders SET changed = '2024-01-01' WHERE id = 1", "INSERT INTO orders (id) VALUES (4)")
    project.downgrade()
    assert [row[2] for row in pg.rows(ALL)] == ["derived of paid", None, "weird", "new"]


def test_a_write_of_another_column_while_the_values_are_copied_is_no_change(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(pg)
    write_before_the_end(pg, monkeypatch, "UPDATE orders SET total = 7, changed = now() WHERE id = 1")
    project = lay_out(tmp_path, pg, columns=COLUMNS, **DERIVED)
    project.upgrade()
    project.downgrade()
    assert pg.rows("SELECT old_status FROM orders WHERE id = 1") == [("paid",)]


@pytest.mark.parametrize(
    "write",
    [
        "UPDATE orders SET total = 1.00 WHERE id = 1",
        "UPDATE orders SET total = 8 WHERE id = 1",
        "INSERT INTO orders (id, total) VALUES (9, 9)",
    ],
)
def test_a_late_write_of_what_goes_closes_the_gate_and_can_be_tried_again(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, columns={"orders": ["total"]})
    with monkeypatch.context() as patch:
        write_before_the_end(pg, patch, write)
        with pytest.raises(MigrationError, match="the columns that go were written in 1 rows of orders"):
            project.upgrade()
    before = pg.rows("SELECT id, total::text FROM orders ORDER BY id")
    project.upgrade()
    project.downgrade()
    assert pg.rows("SELECT id, total::text FROM orders ORDER BY id") == before


def test_a_late_insert_that_leaves_the_column_to_its_default_is_no_write(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(pg)
    write_before_the_end(pg, monkeypatch, "INSERT INTO orders (id) VALUES (9)")
    project = lay_out(tmp_path, pg, columns=COLUMNS)
    project.upgrade()
    project.downgrade()
    assert pg.rows("SELECT old_status FROM orders WHERE id = 9") == [("new",)]


def write_before_the_end(pg: Database, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Have somebody write when everything is copied, before the columns are locked."""
    archive = postgresql.archive_columns

    def archive_then_write(going: GoingColumns) -> None:
        archive(going)
        pg.run(statement)

    monkeypatch.setattr(postgresql, "archive_columns", archive_then_write)


# --- What is said, and what is proven --------------------------------------------------------------


def test_a_foreign_key_that_stays_not_valid_is_said(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, tables=["order_log"])
    project.upgrade()
    pg.run("DELETE FROM orders WHERE id = 3")
    with caplog.at_level(logging.WARNING, "pipestate"):
        project.downgrade()
    assert "order_log_order_id_fkey of order_log stays NOT VALID" in caplog.text
    assert pg.value("SELECT count(*) FROM order_log") == 2


def test_a_copy_under_the_lock_is_said_with_how_to_avoid_it(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(pg)
    with caplog.at_level(logging.WARNING, "pipestate"):
        lay_out(tmp_path, pg, "all at once", columns=COLUMNS).upgrade()
    assert "copied under the lock" in caplog.text
    assert "transaction_per_migration=True" in caplog.text


@pytest.mark.parametrize("how", ["per migration", "all at once"])
def test_a_copy_stays_until_every_value_is_back(pg: Database, tmp_path: Path, how: str) -> None:
    """A trigger that not even a replica is spared writes something else than what comes back."""
    make(pg)
    project = lay_out(tmp_path, pg, how, columns=COLUMNS)
    project.upgrade()
    pg.run(
        "CREATE FUNCTION louder() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.old_status := upper(NEW.old_status); RETURN NEW; END $$",
        "CREATE TRIGGER louder BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION louder()",
        "ALTER TABLE orders ENABLE ALWAYS TRIGGER louder",
    )
    with pytest.raises(MigrationError, match="2 rows of orders did not get their archived values back"):
        project.downgrade()
    assert pg.value("SELECT count(*) FROM pipestate_archive.orders_columns_b2") == 3
    pg.run("DROP TRIGGER louder ON orders")
    project.downgrade()
    assert [row[2] for row in pg.rows(ALL)] == ["paid", None, "weird"]


def test_what_somebody_wrote_since_the_columns_came_back_is_theirs(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, columns=COLUMNS)
    project.upgrade()
    run = batches._run

    def write_first(*arguments: object, **options: object) -> None:
        pg.run("UPDATE orders SET old_status = 'theirs' WHERE id = 1")
        run(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "_run", write_first)
    project.downgrade()
    assert [row[2] for row in pg.rows(ALL)] == ["theirs", None, "weird"]


def test_a_transaction_of_the_caller_is_not_committed(pg: Database, tmp_path: Path) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, tables=["order_log"], columns=COLUMNS)
    env = tmp_path / "migrations" / "env.py"
    env.write_text(
        "from alembic import context\n"
        "connection = context.config.attributes['connection']\n"
        "context.configure(connection=connection, transaction_per_migration=True)\n"
        "with context.begin_transaction():\n    context.run_migrations()\n"
    )
    before = pg.rows(ALL), pg.rows(LOG)
    for direction, revision in (("upgrade", "b2"), ("downgrade", "a1")):
        for keep in (False, True):
            with pg.engine.connect() as connection:
                transaction = connection.begin()
                config = project.config()
                config.attributes["connection"] = connection
                getattr(command, direction)(config, revision)
                transaction.commit() if keep else transaction.rollback()
            at = pg.value("SELECT version_num FROM alembic_version")
            assert at == (revision if keep else {"b2": "a1", "a1": "b2"}[revision])
    assert (pg.rows(ALL), pg.rows(LOG)) == before


def test_sqlite_keeps_checks_order_and_counters(sqlite_database: Database, tmp_path: Path) -> None:
    sqlite_database.run(
        "CREATE TABLE \"orders\" (id INTEGER PRIMARY KEY AUTOINCREMENT, old_status TEXT NOT NULL DEFAULT 'new' "
        "CONSTRAINT known CHECK (old_status <> 'bad'), note TEXT, UNIQUE (note, old_status))",
        "INSERT INTO orders (old_status, note) VALUES ('a', 'x'), ('b', 'y')",
        "DELETE FROM orders WHERE id = 2",
        "CREATE INDEX by_status ON orders (old_status)",
        "CREATE TRIGGER t AFTER INSERT ON orders BEGIN UPDATE orders SET note = 'seen' WHERE id = NEW.id; END",
    )
    query = "SELECT type, name, replace(sql, '\"orders\"', 'orders') FROM sqlite_master WHERE tbl_name = 'orders' ORDER BY 1, 2"
    before = sqlite_database.rows(query)
    project = lay_out(tmp_path, sqlite_database, columns=COLUMNS)
    project.upgrade()
    project.downgrade()
    assert sqlite_database.rows(query) == before
    sqlite_database.run("INSERT INTO orders (note) VALUES ('z')")
    assert sqlite_database.value("SELECT max(id) FROM orders") == 3


def test_sqlite_with_foreign_keys_on_does_not_lose_children_by_a_rebuild(
    sqlite: Sqlite, sqlite_database: Database, tmp_path: Path
) -> None:
    sqlite_database.run(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, old_status TEXT)",
        "CREATE TABLE parts (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders ON DELETE CASCADE)",
        "INSERT INTO orders VALUES (1, 'a')",
        "INSERT INTO parts VALUES (1, 1)",
    )
    project = lay_out(tmp_path, sqlite_database, columns=COLUMNS)
    env = tmp_path / "migrations" / "env.py"
    env.write_text(
        env.read_text().replace(
            "as connection:\n",
            "as connection:\n        connection.exec_driver_sql('PRAGMA foreign_keys = ON')\n",
        )
    )
    with pytest.raises(MigrationError, match=r"would delete the rows of parts .*PRAGMA foreign_keys = OFF"):
        project.upgrade()
    assert sqlite_database.value("SELECT count(*) FROM parts") == 1


def test_a_contract_outside_of_a_revision_says_how_to_name_it(pg: Database, tmp_path: Path) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, columns=COLUMNS)
    revision = tmp_path / "migrations" / "versions" / "b2_contract.py"
    inside = revision.read_text().replace(
        "upgrade, downgrade = contract.upgrade, contract.downgrade", "def upgrade(): contract.upgrade()"
    )
    revision.write_text(inside)
    with pytest.raises(MigrationError, match=r"write Contract\(\.\.\., revision=revision\)"):
        project.upgrade()
    revision.write_text(inside.replace("**wanted)", "**wanted, revision=revision)"))
    project.upgrade()
