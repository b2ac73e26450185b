"""`alembic --sql`: what a DBA reviews and runs with plain psql does the same, and no damage when misused."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from alembic import command

from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations, dump, psql
from support.legacy_database import everything_legacy, fill_legacy
from support.readiness_records import make_ready
from support.servers import Database, Postgres
from support.shop_project import open_shop
from support.versions import alembic_is

FORCE = "force=a drill"
REVISIONS = ["base", "0001", "0002", "0003", "0004", "0005", "0006", "0007"]
STEPS = list(pairwise(REVISIONS))


@pytest.fixture
def online_and_offline(postgres: Postgres) -> Iterator[tuple[Migrations, Migrations]]:
    """Two copies of the old world: one for Alembic, one for psql."""
    online, offline = (postgres.copy_of("legacy", fill_legacy) for _ in range(2))
    yield Migrations(online), Migrations(offline)
    postgres.drop(online)
    postgres.drop(offline)


def run(migrations: Migrations, script: str) -> None:
    done = psql(migrations.database, script)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr, done.stderr


@pytest.mark.scene
def test_every_revision_up_and_down_gives_the_same_schema_as_online(
    online_and_offline: tuple[Migrations, Migrations],
) -> None:
    online, offline = online_and_offline
    for start, end in STEPS:
        if end == "0006":
            for migrations in online_and_offline:
                make_ready(migrations.database)
        online.upgrade(end)
        run(offline, offline.script("upgrade", f"{start}:{end}"))
        assert dump(offline.database) == dump(online.database), f"upgrade {start}:{end}"
    for end, start in reversed(STEPS if alembic_is("1.19") else STEPS[1:]):
        online.downgrade(end, FORCE)
        run(offline, offline.script("downgrade", f"{start}:{end}", FORCE))
        assert dump(offline.database) == dump(online.database), f"downgrade {start}:{end}"


@pytest.mark.scene
def test_the_whole_way_in_one_script_keeps_every_row(
    online_and_offline: tuple[Migrations, Migrations],
) -> None:
    online, offline = online_and_offline
    before = everything_legacy(offline.database)
    online.upgrade("head", FORCE)
    run(offline, offline.script("upgrade", "base:head", FORCE))
    assert offline.revision() == "0007"
    assert dump(offline.database) == dump(online.database)
    forced = "SELECT DISTINCT revision FROM pipestate.run WHERE reason = 'a drill' ORDER BY 1"
    assert offline.database.rows(forced) == [("0006",), ("0007",)]
    run(offline, offline.script("downgrade", "head:base", FORCE))
    assert everything_legacy(offline.database) == before
    run(offline, offline.script("upgrade", "base:head", FORCE))
    assert offline.revision() == "0007", "the version table of an earlier run was in the way"


def test_a_script_needs_no_database(pg_migrations: Migrations) -> None:
    from support.alembic_runs import run_alembic

    done = run_alembic("upgrade", "0001:0002", "--sql")
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip().startswith("-- Written by")
    assert "\\set ON_ERROR_STOP on" in done.stdout.splitlines()[1]


@pytest.mark.parametrize("stop", ["on", "off"])
def test_a_script_for_another_revision_does_nothing(pg_legacy: Migrations, stop: str) -> None:
    """0005:0006 run on a database at 0004 must not touch site_progress, even where psql goes on."""
    pg_legacy.upgrade("0004")
    before = dump(pg_legacy.database)
    script = pg_legacy.script("upgrade", "0005:0007").replace("ON_ERROR_STOP on", f"ON_ERROR_STOP {stop}")
    done = psql(pg_legacy.database, script)
    assert "starts at revision 0005, but the database is at 0004" in done.stderr
    assert (done.returncode != 0) is (stop == "on")
    assert pg_legacy.revision() == "0004"
    assert dump(pg_legacy.database) == before


@pytest.mark.parametrize("stop", ["on", "off"])
def test_a_closed_gate_leaves_the_table_standing(pg_expanded: Migrations, stop: str) -> None:
    """The guard that the original guide gave to `psql <` raised, and the DROP ran all the same."""
    make_ready(pg_expanded.database)
    pg_expanded.database.run("UPDATE site_progress SET updated_at = now()")
    before = dump(pg_expanded.database)
    script = pg_expanded.script("upgrade", "0005:0007").replace("ON_ERROR_STOP on", f"ON_ERROR_STOP {stop}")
    done = psql(pg_expanded.database, script)
    assert "the gate sites-consolidation/readiness is closed" in done.stderr
    first = '; first: {"fault":"updated within 24 hours"'
    assert f"recent-site-progress-writes: rows is 257, required = 0{first}" in done.stderr
    assert pg_expanded.revision() == "0005"
    assert pg_expanded.database.value("SELECT count(*) FROM site_progress") == 257
    assert dump(pg_expanded.database) == before


@pytest.mark.parametrize("stop", ["on", "off"])
def test_a_step_that_fails_in_the_middle_stamps_nothing(pg_legacy: Migrations, stop: str) -> None:
    """An index build that fails outside a transaction must not be followed by the new version."""
    pg_legacy.upgrade("0003")
    pg_legacy.database.run(
        "CREATE TABLE content_item_pipeline_state (id serial PRIMARY KEY, content_item_id int NOT NULL, "
        "pipeline varchar(20) NOT NULL, status varchar(20) NOT NULL)",
        "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) "
        "VALUES (1, 'technical', 'pending'), (1, 'technical', 'pending')",
    )
    script = pg_legacy.script("upgrade", "0003:0005").replace("ON_ERROR_STOP on", f"ON_ERROR_STOP {stop}")
    done = psql(pg_legacy.database, script)
    assert "could not create unique index" in done.stderr
    assert pg_legacy.revision() == "0003"
    pg_legacy.database.run("DELETE FROM content_item_pipeline_state WHERE id = 2")
    run(pg_legacy, pg_legacy.script("upgrade", "0003:0005"))
    pg_legacy.contract()
    pg_legacy.check()


def test_a_script_and_a_migration_do_not_run_at_once(pg_legacy: Migrations) -> None:
    pg_legacy.upgrade("0001")
    with pg_legacy.database.engine.connect() as other:
        other.exec_driver_sql("SELECT pg_advisory_lock(1885958245, 1937006964)")
        body = pg_legacy.script("upgrade", "0001:0002")
        without_head = body[body.index("BEGIN;") :]
        done = psql(pg_legacy.database, without_head, "-v", "ON_ERROR_STOP=1")
    assert "another migration is running" in done.stderr
    assert pg_legacy.revision() == "0001"


def test_a_percent_sign_or_a_colon_in_the_sql_arrives_as_written(pg_legacy: Migrations) -> None:
    script = pg_legacy.script("downgrade", "0007:0006")
    assert "'YYYY-MM-DD\"T\"HH24:MI:SS'" in script.replace("''", "'")
    assert "LIKE '%no documents%'" in script.replace("''", "'")


# --- SQLite, whose SQL cannot read before it acts --------------------------------------------------

SQLITE_STEPS = [("upgrade", f"{a}:{b}") for a, b in STEPS] + [("downgrade", f"{b}:{a}") for a, b in STEPS]


@pytest.mark.parametrize(("direction", "revisions"), SQLITE_STEPS)
def test_a_script_for_sqlite_is_right_or_refused_in_a_sentence(
    sqlite_database: Database, direction: str, revisions: str
) -> None:
    """The one revision that needs no reading is 0002, the ledger, on the way up."""
    migrations = Migrations(sqlite_database)
    done = migrations.cli(direction, revisions, "--sql")
    if (direction, revisions) == ("upgrade", "0001:0002"):
        assert done.returncode == 0, done.stderr
        migrations.upgrade("0001")
        run_on_sqlite(sqlite_database, done.stdout)
        migrations.upgrade("0005")
        assert sqlite_database.value("SELECT count(*) FROM pipestate_sign_off") == 0
        return
    assert done.returncode != 0
    assert "which a script for SQLite cannot: upgrade without --sql" in done.stderr
    assert "Traceback" not in done.stderr
    assert "DROP" not in done.stdout


def test_a_script_for_sqlite_keeps_the_sign_offs_of_any_project(
    sqlite_database: Database, tmp_path: Path
) -> None:
    shop = open_shop(tmp_path / "shop", sqlite_database)
    with pytest.raises(MigrationError, match="upgrade without --sql"):
        command.downgrade(shop.config(), "b2:a1", sql=True)


def run_on_sqlite(database: Database, script: str) -> None:
    with closing(sqlite3.connect(str(database.url.database))) as driver:
        driver.executescript(script)
