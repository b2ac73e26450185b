"""The guard in the server: psql drops no table or column outside a gate without a reason; pipestate itself still can."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from attacks import destructive, harmless
from attacks.conftest import MakeRole
from attacks.guarded import Guarded, open_guarded
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database import connections as db
from pipestate.ledger.drift import read_drift
from pipestate.ledger.install import install
from pipestate.ledger.record import record_schema
from pipestate.ledger.server_guard import (
    install_server_guard,
    read_server_guard,
    remove_server_guard,
)
from pipestate.migration import purge
from support.alembic_runs import Migrations, psql
from support.contract_project import lay_out
from support.programs import run_program
from support.servers import Database, Postgres, postgres_binary

REFUSED = "and no gate was passed, so it was refused"
ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, total numeric, old_status text DEFAULT 'new')",
    "INSERT INTO orders VALUES (1, 1.0, 'paid'), (2, 2.50, NULL)",
    "CREATE TABLE order_log (id int PRIMARY KEY, order_id int REFERENCES orders, said text)",
    "INSERT INTO order_log VALUES (1, 1, 'made')",
)
TABLES = "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') AND oid >= 16384 ORDER BY 1"
COLUMNS = """SELECT attrelid::regclass::text, attname::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
    WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p') ORDER BY 1, 2"""
DROPS = "SELECT actor, role, reason, dropped FROM pipestate.run WHERE event = 'drop' ORDER BY id"


def fill(fresh: Database) -> None:
    fresh.run(*destructive.SETUP, *harmless.SETUP)
    with fresh.begin() as connection:
        install(connection)
        install_server_guard(connection, schemas=["partman"])


@pytest.fixture
def guarded(postgres: Postgres, make_role: MakeRole) -> Iterator[Database]:
    """A database with rows of every kind, the ledger, and the guard in the server."""
    del make_role  # roles can only go when the database is gone
    database = postgres.copy_of("server guard", fill)
    yield database
    postgres.drop(database)


def install_on(database: Database, **exempt: list[str]) -> None:
    with database.begin() as connection:
        install_server_guard(connection, **exempt)


def refusal(database: Database, *statements: str) -> str | None:
    """Run the statements as one transaction, as a tool would; return the server's sentence, None where it took them."""
    try:
        database.run("; ".join(statements))
    except DBAPIError as error:
        return str(error.orig).splitlines()[0]
    return None


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DROP TABLE items", "DROP TABLE loses the table items,"),
        ("DROP TABLE IF EXISTS nowhere, items CASCADE", "the table items,"),
        ("ALTER TABLE orders DROP COLUMN note CASCADE", "ALTER TABLE loses the column orders.note,"),
        ("ALTER TABLE base DROP COLUMN word", "the column base.word, the column derived.word,"),
        ("DROP SCHEMA sales CASCADE", "DROP SCHEMA loses the table sales.invoices,"),
        (
            "DROP TYPE mood CASCADE",
            "DROP TYPE loses the column orders.feeling, the column sales.invoices.feeling,",
        ),
        ("DROP DOMAIN price CASCADE", "the column orders.cost,"),
        ("DROP TABLE events_1", "the table events_1,"),
        ("DROP TABLE events", "the table events, the table events_1, the table events_2,"),
        ("DO $$ BEGIN EXECUTE 'DROP TABLE items'; END $$", "the table items,"),
        ("SELECT drop_items()", "the table items,"),
        ("CALL drop_cache()", "the table cache,"),
        ("ALTER TABLE items RENAME TO x; DROP TABLE x", "the table x,"),
        ("ALTER TABLE items ADD more text; DROP TABLE items", "the table items,"),
        ("CREATE TABLE new_items (LIKE items); DROP TABLE new_items, items", "loses the table items,"),
        ("SET session_replication_role = replica; DROP TABLE items", "the table items,"),
        ("DROP TABLE pipestate.result", "the table pipestate.result,"),
        ("DROP SCHEMA pipestate CASCADE", "and 7 more"),
    ],
)
def test_a_drop_without_a_reason_is_refused(guarded: Database, statement: str, named: str) -> None:
    before = guarded.rows(COLUMNS)
    said = refusal(guarded, statement)
    assert said is not None
    assert named in said
    assert REFUSED in said
    assert guarded.rows(COLUMNS) == before


@pytest.mark.parametrize(
    "setting",
    [
        "SET pipestate.gate = 'c3'",
        "SET LOCAL pipestate.gate = 'c3'",
        "SET pipestate.begun = 'c3'",
        "SET pipestate.gate_state = '{}'",
        "SET pipestate_guard.created = '{items}'",
        "SET pipestate.reason = '  '",
        "SET pipestate.tenant = 't_one'",
        "SET application_name = 'pipestate'",
    ],
)
def test_settings_that_anybody_can_write_do_not_open_it(guarded: Database, setting: str) -> None:
    oid = guarded.value("SELECT 'items'::regclass::oid::text")
    assert REFUSED in str(refusal(guarded, setting.replace("{items}", str(oid)), "DROP TABLE items"))


def test_a_reason_for_every_session_is_none(guarded: Database) -> None:
    name = guarded.url.database
    guarded.run(f"ALTER DATABASE {name} SET pipestate.reason = 'always'")
    assert REFUSED in str(refusal(guarded, "DROP TABLE items"))


def test_a_drop_by_an_owner_is_refused_like_one_by_a_superuser(
    guarded: Database, make_role: MakeRole
) -> None:
    role = make_role(guarded)
    name = role.url.username
    guarded.run(f"GRANT CREATE ON SCHEMA public TO {name}", f"ALTER TABLE items OWNER TO {name}")
    assert REFUSED in str(refusal(role, "DROP TABLE items"))
    assert REFUSED in str(refusal(guarded, f"DROP OWNED BY {name} CASCADE"))
    assert REFUSED in str(refusal(role, "DROP OWNED BY CURRENT_USER CASCADE"))
    may_not = refusal(role, "SET LOCAL pipestate.reason = 'ticket 7'", "DROP TABLE items")
    assert (
        f"{name} may not record its reason: GRANT USAGE ON SCHEMA pipestate and INSERT ON pipestate.run"
        in str(may_not)
    )
    guarded.run(f"GRANT USAGE ON SCHEMA pipestate TO {name}", f"GRANT INSERT ON pipestate.run TO {name}")
    assert refusal(role, "SET LOCAL pipestate.reason = 'ticket 7'", "DROP TABLE items") is None
    assert guarded.rows(DROPS) == [(name, name, "ticket 7", [{"kind": "table", "name": "items"}])]


def test_a_reason_is_for_one_transaction_and_is_recorded(guarded: Database) -> None:
    script = """SET pipestate.reason = 'ticket 8';
        BEGIN; DROP TABLE items; ALTER TABLE orders DROP COLUMN ratio; COMMIT;
        DROP TABLE cache;"""
    done = psql(guarded, script)
    assert "DROP TABLE loses the table cache" in done.stderr
    assert done.stderr.count("ERROR") == 1
    recorded = [(reason, dropped) for _, _, reason, dropped in guarded.rows(DROPS)]
    assert recorded == [
        ("ticket 8", [{"kind": "table", "name": "items"}]),
        ("ticket 8", [{"kind": "column", "name": "orders.ratio"}]),
    ]


def test_a_drop_that_is_rolled_back_is_not_recorded(guarded: Database) -> None:
    before = guarded.value("SELECT count(*) FROM items")
    psql(guarded, "BEGIN; SET LOCAL pipestate.reason = 'x'; DROP TABLE items; ROLLBACK;")
    assert guarded.rows(DROPS) == []
    assert guarded.value("SELECT count(*) FROM items") == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP TABLE t (id int, a int); ALTER TABLE t DROP a; DROP TABLE t",
        "CREATE TABLE t (id int); DROP TABLE t",
        "CREATE TABLE t (id int, a int); SAVEPOINT s; ALTER TABLE t DROP a; RELEASE s; DROP TABLE t",
        "SAVEPOINT s; CREATE TABLE t AS SELECT * FROM items; RELEASE s; DROP TABLE t",
        "DO $$ BEGIN CREATE TABLE t (id int); DROP TABLE t; END $$",
        "CREATE SCHEMA fresh CREATE TABLE t (id int); DROP SCHEMA fresh CASCADE",
        "DROP VIEW order_notes",
        "ALTER TABLE items DROP CONSTRAINT items_order_id_fkey",
        "ALTER TABLE orders ALTER big TYPE integer USING 1",
        "ALTER TABLE events DETACH PARTITION events_1",
        "CREATE MATERIALIZED VIEW m AS SELECT 1 AS a; REFRESH MATERIALIZED VIEW m; DROP MATERIALIZED VIEW m",
        "CREATE SCHEMA partman CREATE TABLE t (id int); SAVEPOINT s; DROP TABLE partman.t",
    ],
)
def test_what_loses_nothing_is_free(guarded: Database, statement: str) -> None:
    assert refusal(guarded, f"BEGIN; {statement}; COMMIT") is None


def test_statements_that_rewrite_a_table_are_free(guarded: Database) -> None:
    script = (
        "VACUUM FULL items; CLUSTER orders USING orders_pkey; REINDEX TABLE CONCURRENTLY items; TRUNCATE cache; "
        "CREATE INDEX CONCURRENTLY ix ON items (order_id); DROP INDEX CONCURRENTLY ix; "
    )
    if int(str(guarded.value("SHOW server_version_num"))) >= 140000:
        script += "ALTER TABLE events DETACH PARTITION events_1 CONCURRENTLY;"
    done = psql(guarded, script)
    assert (done.returncode, done.stderr) == (0, "")


def test_exempt_roles_and_schemas(guarded: Database, make_role: MakeRole) -> None:
    repack, other = make_role(guarded, "SUPERUSER"), make_role(guarded, "SUPERUSER")
    name = str(repack.url.username)
    with guarded.begin() as connection:
        install_server_guard(connection, [name], ["sales"])
    assert refusal(repack, "DROP TABLE items") is None
    assert refusal(other, "DROP SCHEMA sales CASCADE") is None
    assert REFUSED in str(refusal(other, "DROP TABLE cache"))
    assert refusal(other, f"SET LOCAL ROLE {name}", "DROP TABLE cache") is None
    with guarded.connect() as connection:
        found = read_server_guard(connection)
    assert found is not None
    assert (found.roles, found.schemas, found.fault) == ((name,), ("sales",), None)


# pipestate itself


@pytest.mark.parametrize("how", ["per migration", "all at once", "script"])
@pytest.mark.parametrize("keep", [True, False])
def test_contracts_of_an_env_py_without_the_guard(pg: Database, tmp_path: Path, how: str, keep: bool) -> None:
    pg.run(*ORDERS)
    options = {} if keep else {"keep": False}
    project = lay_out(tmp_path, pg, how, tables=["order_log"], columns={"orders": ["old_status"]}, **options)
    install_on(pg)
    before = pg.rows("SELECT id, total, old_status FROM orders ORDER BY id")
    project.upgrade()
    assert ("order_log",) not in pg.rows(TABLES)
    if keep:
        project.downgrade()
        assert pg.rows("SELECT id, total, old_status FROM orders ORDER BY id") == before
        project.upgrade()
        with pg.begin() as connection:
            purge.drop(connection, purge.find(connection), revision="b2")
    assert not [name for (name,) in pg.rows(TABLES) if "order_log" in str(name)]
    assert pg.rows(DROPS) == []
    assert REFUSED in str(refusal(pg, "DROP TABLE orders"))


def test_the_shipped_migrations_up_and_down_with_all_its_helpers(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0002")
    install_on(pg_migrations.database)
    pg_migrations.contract()
    assert pg_migrations.revision() == "0007"
    assert REFUSED in str(refusal(pg_migrations.database, "DROP TABLE sites CASCADE"))
    pg_migrations.downgrade("0005")
    pg_migrations.downgrade("0002")
    assert pg_migrations.revision() == "0002"
    pg_migrations.upgrade("0005")


@pytest.mark.parametrize(
    "form", ["create, copy, drop, rename", "batch mode", "a column by copy", "empty table"]
)
def test_harmless_revisions_of_a_guarded_env_py(guarded: Database, tmp_path: Path, form: str) -> None:
    project = started(guarded, tmp_path)
    project.write("b1", harmless.HARMLESS[form])
    assert project.attempt() is None
    assert guarded.rows(DROPS) == []


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "script"])
def test_a_forced_revision_of_a_guarded_env_py(guarded: Database, tmp_path: Path, script: bool) -> None:
    project = started(guarded, tmp_path)
    project.write("b1", "op.drop_table('items')")
    forced = ("force=ticket 9",)
    if script:
        assert psql(guarded, project.script(x=forced), "-v", "ON_ERROR_STOP=1").returncode == 0
    else:
        assert "loses" in str(project.attempt())
        assert project.attempt(x=forced) is None
    assert ("items",) not in guarded.rows(TABLES)
    assert guarded.rows(DROPS) == []
    assert REFUSED in str(refusal(guarded, "DROP TABLE cache"))


def test_an_unguarded_env_py_that_drops_a_table_is_refused(guarded: Database, tmp_path: Path) -> None:
    project = started(guarded, tmp_path)
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "None"))
    project.write("b1", "op.drop_table('items')")
    with pytest.raises(DBAPIError, match="no gate was passed"):
        project.attempt()


def started(database: Database, to: Path) -> Guarded:
    project = open_guarded(to, database)
    project.write("a0", "pass")
    return project


# installing, removing, comparing


def test_removal_with_the_command_and_with_the_ledger(guarded: Database) -> None:
    with guarded.begin() as connection:
        assert remove_server_guard(connection)
    with guarded.begin() as connection:
        assert not remove_server_guard(connection)
    assert refusal(guarded, "DROP TABLE items") is None
    install_on(guarded)
    with guarded.begin() as connection:
        purge.drop_ledger(connection)
        assert read_server_guard(connection) is None
    assert guarded.value(
        "SELECT to_regnamespace('pipestate') IS NULL AND to_regnamespace('pipestate_guard') IS NULL"
    )
    assert refusal(guarded, "DROP TABLE cache") is None


def test_a_role_that_may_not_gets_one_sentence(guarded: Database, make_role: MakeRole) -> None:
    role = make_role(guarded)
    name = role.url.username
    guarded.run(
        f"ALTER DATABASE {guarded.url.database} OWNER TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA pipestate TO {name}",
    )
    guarded.run(f"GRANT USAGE ON SCHEMA pipestate TO {name}")
    with (
        pytest.raises(ConfigError, match="run pipestate guard remove as its owner first"),
        role.begin() as connection,
    ):
        remove_server_guard(connection)
    with guarded.begin() as connection:
        remove_server_guard(connection)
    with pytest.raises(Unreachable, match=f"the role {name} may not do this"), role.begin() as connection:
        install_server_guard(connection)
    assert guarded.value("SELECT to_regnamespace('pipestate_guard') IS NULL")


def test_it_needs_the_ledger_and_postgresql(pg: Database, sqlite_database: Database) -> None:
    with pytest.raises(ConfigError, match="ledger"), pg.begin() as connection:
        install_server_guard(connection)
    with pytest.raises(ConfigError, match="for PostgreSQL"), sqlite_database.begin() as connection:
        install_server_guard(connection)


def test_a_schema_that_another_role_planted_is_refused(
    pg: Database, postgres: Postgres, make_role: MakeRole
) -> None:
    role = make_role(pg)
    with pg.begin() as connection:
        install(connection)
    pg.run(f"CREATE SCHEMA pipestate_guard AUTHORIZATION {role.url.username}")
    with pytest.raises(ConfigError, match=f"belongs to {role.url.username}"), pg.begin() as connection:
        install_server_guard(connection)
    pg.run("DROP SCHEMA pipestate_guard")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER EVENT TRIGGER pipestate_guard DISABLE", "is missing, disabled or altered"),
        ("ALTER EVENT TRIGGER pipestate_guard ENABLE", "is missing, disabled or altered"),
        ("DROP EVENT TRIGGER pipestate_guard_start", "is missing, disabled or altered"),
        ("DROP EVENT TRIGGER pipestate_guard", "is missing, disabled or altered"),
        (
            "CREATE OR REPLACE FUNCTION pipestate_guard.refuse_drops() RETURNS event_trigger LANGUAGE plpgsql "
            "SET search_path = pg_catalog, pg_temp AS 'BEGIN END'",
            "is missing, altered or of another version",
        ),
        (
            "ALTER FUNCTION pipestate_guard.refuse_drops() SET search_path = public",
            "is missing, altered or of another version",
        ),
        (
            "DROP EVENT TRIGGER pipestate_guard; CREATE EVENT TRIGGER pipestate_guard ON sql_drop "
            "WHEN TAG IN ('DROP VIEW') EXECUTE FUNCTION pipestate_guard.refuse_drops(); "
            "ALTER EVENT TRIGGER pipestate_guard ENABLE ALWAYS",
            "altered",
        ),
    ],
)
def test_a_guard_that_was_altered_is_said_and_repaired(
    guarded: Database, tmp_path: Path, change: str, said: str
) -> None:
    guarded.run(change)
    with guarded.connect() as connection:
        found = read_server_guard(connection)
    assert found is not None
    assert said in str(found.fault)
    project = started(guarded, tmp_path)
    done = run_cli(guarded, project.root, "guard", "check")
    assert (done.returncode, said in done.stdout) == (1, True), done.stderr
    install_on(guarded)
    done = run_cli(guarded, project.root, "guard", "check")
    assert (done.returncode, "is complete" in done.stdout) == (0, True), done.stderr


def test_status_says_that_it_is_disabled(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0005")
    install_on(pg_migrations.database)
    pg_migrations.database.run("ALTER EVENT TRIGGER pipestate_guard DISABLE")
    done = run_cli(pg_migrations.database, Path(__file__).parents[2], "status")
    assert "the event trigger pipestate_guard is missing, disabled or altered" in done.stderr, done.stdout


def run_cli(database: Database, root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": database.text}
    return run_program(["pipestate", *arguments], cwd=root, environment=environment)


def test_the_commands(pg: Database, tmp_path: Path) -> None:
    root = started(pg, tmp_path).root
    assert run_cli(pg, root, "guard", "check").returncode == 1
    assert run_cli(pg, root, "guard", "install").returncode == 2, "there is no ledger"
    assert run_cli(pg, root, "ledger", "install").returncode == 0
    done = run_cli(pg, root, "guard", "install", "--exempt-role", "repack", "--exempt-schema", "partman")
    assert done.returncode == 0, done.stderr
    done = run_cli(pg, root, "guard", "check")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        0,
        ["exempt roles: repack", "exempt schemas: partman"],
    )
    done = run_cli(pg, root, "guard", "remove")
    assert (done.returncode, done.stderr) == (0, "the guard in the server is removed\n")


def test_it_is_no_drift(guarded: Database) -> None:
    with guarded.begin() as connection:
        record_schema(connection, "a0")
        remove_server_guard(connection)
        found = read_drift(connection)
        assert found is not None
        assert found.differences == ()


def test_a_dump_restores_it(guarded: Database, pg: Database) -> None:
    rows = guarded.value("SELECT count(*) FROM items")
    dumped = subprocess.run(
        [postgres_binary("pg_dump"), "-Fc", guarded.text], capture_output=True, check=True
    ).stdout
    # The second time --clean drops what is there, the event triggers first.
    for options in ([], ["--clean", "--if-exists"]):
        done = subprocess.run(
            [postgres_binary("pg_restore"), *options, "-d", pg.text],
            input=dumped,
            capture_output=True,
            check=False,
        )
        said = [line for line in done.stderr.decode().splitlines() if "pg_restore: error" in line]
        assert not [line for line in said if "transaction_timeout" not in line], "before 17 there is none"
        with db.reader(pg.url) as connection:
            found = read_server_guard(connection)
        assert found is not None
        assert (found.fault, found.schemas) == (None, ("partman",))
        assert pg.value("SELECT count(*) FROM items") == rows
        assert REFUSED in str(refusal(pg, "DROP TABLE items"))
