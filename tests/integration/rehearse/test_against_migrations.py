"""`drift --against migrations`: the database beside what its migrations build from base on a scratch database."""

import json
import os
import re
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.rehearse.against_migrations import compare_with_migrations
from support.alembic_runs import ROOT, Migrations
from support.miniatures import copy_project
from support.programs import run_program
from support.rehearsals import job_for
from support.servers import Database
from support.shop_project import open_shop


def silent(_: str) -> None:
    pass


def differences(root: Path, database: Database) -> list[str]:
    return [str(each) for each in compare_with_migrations(job_for(root, database), silent).differences]


def test_a_shop_at_each_revision_is_what_its_migrations_build(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, database)
    shop.upgrade("b2")
    shop.fill()
    shop.approve()
    assert differences(shop.root, database) == []
    shop.upgrade("head")
    assert differences(shop.root, database) == [], "the contract's hidden columns and archive"
    shop.downgrade("b2")
    assert differences(shop.root, database) == []


@pytest.mark.parametrize("environment", ["asynchronous", "own_version_table"])
def test_it_runs_through_the_projects_own_env_py(pg: Database, tmp_path: Path, environment: str) -> None:
    driver = "postgresql+asyncpg" if environment == "asynchronous" else None
    shop = open_shop(tmp_path, pg, environment, driver=driver)
    shop.upgrade("b2")
    pg.run("CREATE TABLE by_hand (id integer)")
    assert differences(shop.root, pg) == ["column by_hand.id extra", "table by_hand extra"]


def test_the_shipped_migrations_are_what_they_build_also_after_a_purge(pg_migrations: Migrations) -> None:
    pg_migrations.contract()
    assert differences(ROOT, pg_migrations.database) == []
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": pg_migrations.database.text}
    done = run_program(
        ["pipestate", "purge", "--older-than", "0m", "--yes"], cwd=ROOT, environment=environment
    )
    assert done.returncode == 0, done.stderr
    assert differences(ROOT, pg_migrations.database) == []


def test_missing_extra_and_different_objects_each_have_a_line(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    pg.run(
        "CREATE ROLE drift_reader NOLOGIN",
        "DROP TABLE approvals",
        "ALTER TABLE orders ALTER status SET DEFAULT 'new', ADD by_hand text",
        "CREATE INDEX made_by_hand ON orders (status)",
        "CREATE VIEW totals AS SELECT count(*) FROM orders",
        "CREATE POLICY of_reader ON orders TO drift_reader USING (true)",
        "GRANT SELECT ON orders TO drift_reader",
        "CREATE SCHEMA tenant",
    )
    try:
        done = run_program(
            ["pipestate", "drift", "--against", "migrations"], cwd=shop.root, environment=os.environ
        )
    finally:
        pg.run("DROP OWNED BY drift_reader", "DROP ROLE drift_reader")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "drift: 8 objects differ from what the migrations build up to revision b2",
        "  schema tenant extra",
        "  column approvals.what missing",
        "  column orders.by_hand extra",
        "  column orders.status different",
        "  index made_by_hand extra",
        "  policy orders.of_reader extra",
        "  table approvals missing",
        "  view totals extra",
    ]


def test_on_sqlite(sqlite_database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, sqlite_database)
    shop.upgrade("b2")
    sqlite_database.run("CREATE INDEX by_hand ON orders (status)", "DROP TABLE approvals")
    found = shop.pipestate("drift", "--against", "migrations")
    assert found == {
        "schema_version": 1,
        "revision": "b2",
        "recorded_at": None,
        "incomparable": None,
        "differences": [
            {"kind": "column", "name": "approvals.what", "change": "missing"},
            {"kind": "index", "name": "by_hand", "change": "extra"},
            {"kind": "table", "name": "approvals", "change": "missing"},
        ],
    }


def test_a_database_without_a_revision_is_refused(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, database)
    database.run("CREATE TABLE by_hand (id integer)")
    with pytest.raises(ConfigError, match="has no revision of this project, so nothing can be compared"):
        differences(shop.root, database)


def test_a_revision_that_the_project_lacks_is_refused(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, database)
    shop.upgrade("b2")
    database.run("UPDATE alembic_version SET version_num = 'zz'")
    done = run_program(
        ["pipestate", "drift", "--against", "migrations"], cwd=shop.root, environment=os.environ
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "the database is at revision zz" in done.stderr


def test_migrations_that_do_not_run_from_base_is_said(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, database)
    shop.upgrade("b2")
    first = next(path for path in (shop.root / "migrations" / "versions").glob("*.py") if "a1" in path.name)
    written = re.sub(
        r"(def upgrade\(\).*:\n)", r'\1    op.execute("ALTER TABLE nowhere ADD x int")\n', first.read_text()
    )
    first.write_text(written)
    with pytest.raises(
        Unreachable, match="the migrations do not run from base on an empty database"
    ) as refused:
        differences(shop.root, database)
    assert "nowhere" in str(refused.value)
    assert first.name in str(refused.value)


def test_an_env_py_that_names_its_own_database_is_refused(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    env = shop.root / "migrations" / "env.py"
    literal = json.dumps(pg.text)
    env.write_text(
        "from alembic import context\nfrom sqlalchemy import create_engine\n"
        f"with create_engine({literal}).connect() as connection:\n"
        "    context.configure(connection=connection)\n"
        "    with context.begin_transaction():\n        context.run_migrations()\n"
    )
    before = shop.tables()
    with pytest.raises(ConfigError, match=r"env\.py would migrate"):
        differences(shop.root, pg)
    assert shop.tables() == before


def test_several_heads_are_built_together(database: Database, tmp_path: Path) -> None:
    root = copy_project("branches", tmp_path)
    ini = root / "alembic.ini"
    ini.write_text(f"{ini.read_text()}sqlalchemy.url = {database.text.replace('%', '%%')}\n")
    done = run_program(["alembic", "upgrade", "heads"], cwd=root, environment=os.environ)
    assert done.returncode == 0, done.stderr
    assert differences(root, database) == []
