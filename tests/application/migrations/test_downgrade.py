"""Down to 0002 and up again: what 0003 to 0005 added is hidden, and comes back with every value and row."""

import os
import re
import signal
import time

import pytest

from pipestate.migration.failure import MigrationError
from support.alembic_runs import ROOT, Migrations, psql
from support.programs import run_program
from support.servers import Database

# Columns of 0003, in the order of `counted`.
COUNTERS = (
    "current_stage, ocr_total, ocr_completed, deploy_failed, coordinator_enqueued, last_error_message, "
    "CAST(updated_at AS text)"
)
ROWS_OF_THE_MIGRATIONS = (
    "INSERT INTO pipeline_job (subdomain, stage, job_key) VALUES ('site001.example.gov', 'ocr', 'k1')",
    "INSERT INTO pipeline_claim (subdomain, stage) VALUES ('site001.example.gov', 'ocr')",
    "INSERT INTO pipeline_reconciliation (triggered_by, actor, found) VALUES ('cron', 'tests', 7)",
    "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) VALUES (1, 'technical', 'pending')",
    "INSERT INTO queue_history (job_id, event) VALUES (9, 'queued')",
    "INSERT INTO worker_heartbeats (worker_id, queue_name, status) VALUES ('w', 'q', 'idle')",
)
TABLES = {
    "0003": ("pipeline_job", "pipeline_claim", "pipeline_reconciliation"),
    "0004": ("content_item_pipeline_state",),
    "0005": ("queue_history", "worker_heartbeats", "job_results"),
}


def fill_new(database: Database, revision: str) -> None:
    """Give every site a value in columns of 0003, and each table of the migrations a row."""
    database.run(
        "UPDATE sites SET current_stage = 'ocr', ocr_total = 9, ocr_completed = 3, deploy_failed = 2, "
        "coordinator_enqueued = true, last_error_message = 'of ' || subdomain, updated_at = '2026-01-18 20:30:00'",
        *(
            statement
            for statement in ROWS_OF_THE_MIGRATIONS
            if any(f" {t} " in statement for t in held(revision))
        ),
    )


def held(revision: str) -> list[str]:
    return [table for number, tables in TABLES.items() if number <= revision for table in tables]


def rows_of_the_migrations(database: Database, revision: str) -> dict[str, list[tuple[object, ...]]]:
    return {table: database.rows(f"SELECT * FROM {table}") for table in held(revision)}


def counted(database: Database, where: str = "true") -> list[tuple[object, ...]]:
    return database.rows(f"SELECT subdomain, {COUNTERS} FROM sites WHERE {where} ORDER BY subdomain")


def names(database: Database) -> set[str]:
    """Columns, constraints, indexes and the objects that belong to the migrations, without what is hidden."""
    if database.is_sqlite:
        query = "SELECT type || ' ' || name FROM sqlite_master WHERE tbl_name NOT LIKE 'pipestate_archive%'"
        columns = "SELECT 'column ' || name || type || \"notnull\" || coalesce(dflt_value, '') FROM pragma_table_info('sites')"
        registry = "SELECT kind || ' ours ' || name FROM pipestate_object WHERE name LIKE '%sites%'"
    else:
        query = (
            "SELECT format('%s %s', relkind, relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "UNION ALL SELECT format('constraint %s %s %s', conname, pg_get_constraintdef(oid), convalidated) "
            "FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
        )
        columns = (
            "SELECT format('column %s %s %s %s', attname, atttypid::regtype, attnotnull, "
            "pg_get_expr(adbin, adrelid)) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND "
            "adnum = attnum WHERE attrelid = 'sites'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        registry = "SELECT kind || ' ours ' || name FROM pipestate.object WHERE name LIKE '%sites%'"
    found = {str(row[0]) for each in (query, columns, registry) for row in database.rows(each)}
    return {name for name in found if not re.search(r"\b_pipestate_\d", name)}


def assert_no_drift(database: Database) -> None:
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": database.text}
    done = run_program(["pipestate", "drift"], cwd=ROOT, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def go(migrations: Migrations, way: str, direction: str, start: str, target: str) -> None:
    """Migrate as a person does: by Alembic's command, or with a script in psql; without a force."""
    if way == "script":
        done = psql(migrations.database, migrations.script(direction, f"{start}:{target}"))
    else:
        done = migrations.cli(direction, target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert migrations.revision() == target


@pytest.mark.parametrize("revision", ["0003", "0004", "0005"])
def test_values_and_rows_are_hidden_below_0003_and_come_back(
    legacy_migrations: Migrations, revision: str
) -> None:
    go_there_and_back(legacy_migrations, "online", revision)


@pytest.mark.parametrize("revision", ["0003", "0004", "0005"])
def test_scripts_for_psql_hide_and_restore_the_same(pg_legacy: Migrations, revision: str) -> None:
    go_there_and_back(pg_legacy, "script", revision)


def go_there_and_back(migrations: Migrations, way: str, revision: str) -> None:
    """Down to 0002 and up again, twice; after each the schema is that of the revision, and drift says so."""
    database = migrations.database
    migrations.upgrade("0002")
    below = names(database)
    migrations.upgrade(revision)
    fill_new(database, revision)
    before, rows, schema = counted(database), rows_of_the_migrations(database, revision), names(database)
    for _ in range(2):
        go(migrations, way, "downgrade", revision, "0002")
        assert names(database) == below
        assert_no_drift(database)
        go(migrations, way, "upgrade", "0002", revision)
        assert counted(database) == before
        assert rows_of_the_migrations(database, revision) == rows
        assert names(database) == schema
        assert_no_drift(database)


def test_rows_written_at_0002_have_defaults_and_old_ones_their_values(expanded: Migrations) -> None:
    database = expanded.database
    fill_new(database, "0005")
    before = {row[0]: row[1:] for row in counted(database)}
    expanded.downgrade("0002")
    database.run(
        "INSERT INTO sites (subdomain, name) VALUES ('new.example.gov', 'new')",
        "UPDATE sites SET name = 'modified', status = 'deployed' WHERE subdomain = 'site002.example.gov'",
        "DELETE FROM sites WHERE subdomain = 'site003.example.gov'",
    )
    expanded.upgrade("0005")
    after = {row[0]: row[1:] for row in counted(database)}
    assert after.pop("new.example.gov") == (None, 0, 0, 0, False if not database.is_sqlite else 0, None, None)
    del before["site003.example.gov"]
    assert after == before
    database.run("INSERT INTO sites (subdomain) VALUES ('newer.example.gov')")
    assert database.value("SELECT ocr_total FROM sites WHERE subdomain = 'newer.example.gov'") == 0
    assert database.value("SELECT name FROM sites WHERE subdomain = 'site002.example.gov'") == "modified"
    expanded.upgrade("head", "force=no week to wait")
    expanded.check()


@pytest.mark.parametrize("target", ["0002", "0001", "base"])
def test_from_head_nothing_below_0005_wants_a_force(contracted: Migrations, target: str) -> None:
    """Counters are kept below base, too: hidden in the table, or with the archived one."""
    database = contracted.database
    database.run("UPDATE sites SET ocr_total = 7, ocr_completed = 5")
    before = counted(database)
    contracted.downgrade(target)
    contracted.upgrade("0005")
    assert counted(database) == before


def test_a_view_of_a_counter_stops_the_downgrade_before_its_first_change(expanded: Migrations) -> None:
    database = expanded.database
    fill_new(database, "0005")
    expanded.downgrade("0003")
    database.run("CREATE VIEW totals AS SELECT subdomain, ocr_total FROM sites")
    schema, rows = names(database), rows_of_the_migrations(database, "0003")
    with pytest.raises(MigrationError, match="totals"):
        expanded.downgrade("0002")
    assert expanded.revision() == "0003"
    assert names(database) == schema
    assert rows_of_the_migrations(database, "0003") == rows
    database.run("DROP VIEW totals")
    expanded.downgrade("0002")


def test_a_column_made_by_hand_at_0002_is_named_by_the_upgrade(expanded: Migrations) -> None:
    database = expanded.database
    fill_new(database, "0005")
    before = counted(database)
    expanded.downgrade("0002")
    database.run("ALTER TABLE sites ADD COLUMN ocr_total integer")
    with pytest.raises(MigrationError, match="has ocr_total again"):
        expanded.upgrade("0005")
    assert expanded.revision() == "0002"
    database.run("ALTER TABLE sites DROP COLUMN ocr_total")
    expanded.upgrade("0005")
    assert counted(database) == before


def test_what_was_purged_at_0002_comes_back_empty(pg_expanded: Migrations) -> None:
    database = pg_expanded.database
    fill_new(database, "0005")
    pg_expanded.downgrade("0002")
    database.run("UPDATE pipestate.soft_drop SET dropped_at = dropped_at - interval '1 year'")
    done = run_program(
        ["pipestate", "purge", "--older-than", "1d", "--yes"],
        cwd=ROOT,
        environment={**os.environ, "PIPESTATE_DATABASE_URL": database.text},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pg_expanded.upgrade("0005")
    assert database.rows("SELECT DISTINCT current_stage, ocr_total FROM sites") == [(None, 0)]
    assert database.value("SELECT count(*) FROM pipeline_job") == 0


@pytest.mark.parametrize("seconds", [0.2, 0.4, 0.6])
def test_a_downgrade_that_is_killed_leaves_each_revision_whole(
    pg_expanded: Migrations, seconds: float
) -> None:
    """Of each revision all or nothing is done: whoever then goes up again misses nothing."""
    database = pg_expanded.database
    fill_new(database, "0005")
    before, rows, schema = counted(database), rows_of_the_migrations(database, "0005"), names(database)
    child = os.fork()
    if child == 0:
        try:
            os.close(2)
            pg_expanded.downgrade("0002")
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pg_expanded.upgrade("0005")
    assert names(database) == schema
    assert (counted(database), rows_of_the_migrations(database, "0005")) == (before, rows)
    pg_expanded.downgrade("0002")
    pg_expanded.upgrade("0005")
    assert (counted(database), rows_of_the_migrations(database, "0005")) == (before, rows)
