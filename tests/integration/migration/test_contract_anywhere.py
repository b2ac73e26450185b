"""Contracts in somebody else's project, under an env.py of its own."""

import logging
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import create_engine

from pipestate import Contract
from pipestate.ddl import DerivedRows
from pipestate.gate import GateClosed
from pipestate.migration import purge
from pipestate.migration.failure import MigrationError
from support.contract_project import ScriptFailed, lay_out
from support.servers import Database

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
    with pytest.raises(MigrationError, match="new rows of orders: 1, modified rows: 0"):
        project.downgrade()
    assert database.value("SELECT version_num FROM alembic_version") == "b2"
    project.downgrade("a1", "force=the default is right")
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


@pytest.mark.parametrize("how", ["per migration", "all at once"])
def test_without_a_time_of_change_derived_decides_for_every_modified_row(
    database: Database, tmp_path: Path, how: str
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, x text, note text)")
    database.run("INSERT INTO t VALUES (1, 'x1', 'a'), (2, 'x2', 'b'), (3, NULL, NULL)")
    project = lay_out(
        tmp_path, database, how, columns={"t": ["x"]}, derived={"t": {"x": "'derived ' || s.note"}}
    )
    project.upgrade()
    database.run("UPDATE t SET note = 'B' WHERE id = 2", "INSERT INTO t (id, note) VALUES (4, 'new')")
    project.downgrade()
    assert database.rows("SELECT id, x FROM t ORDER BY id") == [
        (1, "x1"),
        (2, "derived B"),
        (3, None),
        (4, "derived new"),
    ]


def test_a_script_counts_and_refuses_old_values_too(pg: Database, tmp_path: Path) -> None:
    make(pg)
    project = lay_out(tmp_path, pg, "script", columns=COLUMNS)
    project.upgrade()
    pg.run("UPDATE orders SET total = total + 1 WHERE id = 1", "INSERT INTO orders (id, total) VALUES (4, 9)")
    with pytest.raises(
        ScriptFailed, match=r"new rows of orders: 1, modified rows: 1\. The contract has no `derived`"
    ):
        project.downgrade()
    assert pg.value("SELECT version_num FROM alembic_version") == "b2"
    project.downgrade("a1", "force=old values are right")
    assert pg.value("SELECT old_status FROM orders WHERE id = 4") == "new"


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
    assert (
        pg.value("SELECT to_regclass('sales.orders') IS NULL AND to_regclass('public.orders') IS NULL")
        is True
    )
    too_long = "SELECT count(*) FROM pg_class WHERE length(relname) > 63"
    assert pg.value(too_long) == 0
    project.downgrade()
    assert pg.rows(query) == before


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


def test_after_a_purge_the_restore_refuses(database: Database, tmp_path: Path) -> None:
    make(database)
    project = lay_out(tmp_path, database, tables=["order_log"], columns=COLUMNS)
    project.upgrade()
    with database.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="b2")
    with pytest.raises(MigrationError, match=r"order_log .*alembic -x force=."):
        project.downgrade()
    project.downgrade("a1", "force=we know")
    with pytest.raises(Exception, match="order_log"):
        database.rows(LOG)


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        ({"tables": ["ordrs"]}, "ordrs, which does not exist"),
        ({"columns": {"orders": ["old_staus"]}}, "drops orders.old_staus, which does not exist"),
        ({"columns": {"order_log": ["id"]}}, "part of the primary key"),
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


OTHER_CASES = {
    "Order_Log does not exist, and order_log does": {"tables": ["Order_Log"]},
    "Orders does not exist, and orders does": {"columns": {"Orders": ["old_status"]}},
    "orders.Old_Status does not exist, and old_status does": {"columns": {"orders": ["Old_Status"]}},
}


@pytest.mark.parametrize(("said", "contract"), OTHER_CASES.items())
@pytest.mark.parametrize("how", ["per migration", "script"])
def test_another_spelling_of_what_is_there_is_not_gone(
    database: Database, tmp_path: Path, contract: dict[str, Any], said: str, how: str
) -> None:
    if database.is_sqlite and how == "script":
        pytest.skip("SQLite has no scripts")
    make(database)
    with pytest.raises((MigrationError, ScriptFailed), match=said):
        lay_out(tmp_path, database, how, **contract, may_be_gone=True).upgrade()
    assert len(database.rows(ALL)) == 3
    assert len(database.rows(LOG)) == 2


def test_a_gate_refuses_another_spelling_of_what_is_there(database: Database, tmp_path: Path) -> None:
    make(database)
    project = lay_out(tmp_path, database, tables=["order_log"])
    (tmp_path / "migrations" / "versions" / "b2_contract.py").write_text(
        "from alembic import op\nfrom pipestate.gate import gate\nrevision, down_revision = 'b2', 'a1'\n"
        "def upgrade():\n"
        "    with gate('odd/ready', lock=['Order_Log'], may_be_gone=True, revision=revision):\n"
        "        op.drop_table('order_log')\n"
    )
    with pytest.raises(MigrationError, match="Order_Log does not exist, and order_log does"):
        project.upgrade()
    assert len(database.rows(LOG)) == 2


def test_a_misspelt_engine_is_refused_where_the_ini_lists_the_databases(
    database: Database, tmp_path: Path
) -> None:
    make(database)
    project = lay_out(tmp_path, database, tables=["order_log"], engine="shopp")
    env = tmp_path / "migrations" / "env.py"
    env.write_text(
        env.read_text()
        .replace("run_migrations()\n", "run_migrations(engine_name='shop')\n")
        .replace("def run_migrations_online(engine_name='shop')", "def run_migrations_online()")
    )
    ini = tmp_path / "alembic.ini"
    ini.write_text(ini.read_text().replace("[alembic]\n", "[alembic]\ndatabases = shop, stock\n"))
    with pytest.raises(MigrationError, match="the databases shop, stock, and shopp is none of them"):
        project.upgrade()
    assert len(database.rows(LOG)) == 2


FAULTS = {
    "names tables or columns": {},
    "write a list of names": {"tables": "orders"},
    "wants a list of names for each table": {"columns": {"orders": "old_status"}},
    "name it once": {"tables": ["orders"], "columns": {"orders": ["x"]}},
    "keys names parts, which is not dropped": {"tables": ["orders"], "keys": {"parts": "id"}},
    "write DerivedRows": {"tables": ["orders"], "derived": {"orders": {"x": "1"}}},
    "for columns write": {"columns": {"orders": ["x"]}, "derived": {"orders": DerivedRows("s", {})}},
    "names y, which is not dropped": {"columns": {"orders": ["x"]}, "derived": {"orders": {"y": "1"}}},
    "name both or none": {"columns": {"orders": ["x"]}, "changed_at": {"orders": "t"}},
}


@pytest.mark.parametrize(("said", "arguments"), FAULTS.items())
def test_a_contract_that_says_nothing_is_refused_as_it_is_written(
    said: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(MigrationError, match=said.removeprefix("names ")):
        Contract("orders/ready", **arguments)


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
    assert "order_log_order_id_fkey of public.order_log stays NOT VALID" in caplog.text
    assert pg.value("SELECT count(*) FROM order_log") == 2


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


def test_sqlite_foreign_keys_of_a_lent_connection_are_off_only_for_the_contract(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """A rebuild with foreign_keys on would delete the parts."""
    sqlite_database.run(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, old_status TEXT, total INTEGER)",
        "CREATE TABLE parts (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders ON DELETE CASCADE)",
        "INSERT INTO orders VALUES (1, 'a', 1)",
        "INSERT INTO parts VALUES (1, 1)",
    )
    project = lay_out(tmp_path, sqlite_database, columns=COLUMNS)
    env = tmp_path / "migrations" / "env.py"
    env.write_text(
        "from alembic import context\n"
        "context.configure(connection=context.config.attributes['connection'], transaction_per_migration=True)\n"
        "with context.begin_transaction():\n    context.run_migrations()\n"
    )
    engine = create_engine(sqlite_database.url)
    try:
        for direction, revision in (("upgrade", "b2"), ("downgrade", "a1")):
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
                connection.rollback()
                config = project.config()
                config.attributes["connection"] = connection
                getattr(command, direction)(config, revision)
                if direction == "upgrade":
                    connection.rollback()
                    assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
            with engine.connect() as connection:
                assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
                assert connection.exec_driver_sql("SELECT count(*) FROM parts").scalar() == 1
    finally:
        engine.dispose()
    assert sqlite_database.rows(ALL) == [(1, 1, "a")]


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
