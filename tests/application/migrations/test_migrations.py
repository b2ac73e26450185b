"""Up, down and back, on both engines, with data in every table."""

import pytest
import sqlalchemy as sa

from pipestate.ledger.tables import ledger_on
from support.alembic_runs import Migrations
from support.legacy_database import Rows, everything_legacy, without_derived
from support.readiness_records import make_ready
from support.servers import Database

NEW_TABLES = (
    "pipestate.soft_drop",
    "pipestate.object",
    "pipestate.run",
    "pipestate.result",
    "pipestate.backfill_progress",
    "pipestate.rehearsal",
    "pipestate.statement_calls",
    "pipestate.schema_record",
    "pipestate.attestation",
    "pipestate.observation",
    "pipeline_reconciliation",
    "pipeline_job",
    "pipeline_claim",
    "content_item_pipeline_state",
    "job_results",
    "worker_heartbeats",
    "queue_history",
)


def new_tables(database: Database) -> set[str]:
    """SQLite keeps its soft drops in a manifest of its own."""
    return set(NEW_TABLES) - ({"pipestate.soft_drop"} if database.is_sqlite else set())


def tables(database: Database) -> set[str]:
    """Those of the application by name, those of the ledger as `pipestate.run` on both engines."""
    if database.is_sqlite:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'pipestate_archive_%'"
        names = {str(row[0]) for row in database.rows(query)}
        ledger = set(ledger_on("sqlite").metadata.tables)
        return {f"pipestate.{name.removeprefix('pipestate_')}" if name in ledger else name for name in names}
    query = (
        "SELECT CASE relnamespace::regnamespace::text WHEN 'public' THEN relname::text "
        "ELSE relnamespace::regnamespace || '.' || relname END FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, to_regnamespace('pipestate'))"
    )
    return {str(row[0]) for row in database.rows(query)}


def columns(database: Database, table: str) -> set[str]:
    with database.engine.connect() as connection:
        return {column["name"] for column in sa.inspect(connection).get_columns(table)}


def test_an_empty_database_reaches_head(migrations: Migrations) -> None:
    migrations.upgrade("head")
    assert migrations.revision() == "0007"
    assert new_tables(migrations.database) <= tables(migrations.database)
    assert "site_progress" not in tables(migrations.database)
    assert "status" not in columns(migrations.database, "sites")


def test_downgrade_base_of_an_empty_database_leaves_only_the_version_table(migrations: Migrations) -> None:
    migrations.upgrade("head")
    migrations.downgrade("base")
    assert tables(migrations.database) == {"pipestate_alembic_version"}
    if not migrations.database.is_sqlite:
        assert not migrations.database.rows("SELECT FROM pg_namespace WHERE nspname = 'pipestate_archive'")


@pytest.mark.parametrize("target", ["-1", "-2", "0005", "0003", "0002", "0001", "base"])
def test_every_legacy_row_and_value_is_back_after_contract_and_downgrade(
    contracted: Migrations, legacy_rows: Rows, target: str
) -> None:
    assert len(legacy_rows["sites"]) == 300
    assert "status" not in columns(contracted.database, "sites")
    contracted.downgrade(target)
    back = set(legacy_rows)
    if target == "-1":  # site_progress is 0006's
        back.remove("site_progress")
        assert "site_progress" not in tables(contracted.database)
    found = everything_legacy(contracted.database, *back)
    assert without_derived(found, legacy_rows) == {table: legacy_rows[table] for table in back}


@pytest.mark.scene
def test_up_and_down_twice_changes_nothing(legacy_migrations: Migrations) -> None:
    before = everything_legacy(legacy_migrations.database)
    for _ in range(2):
        legacy_migrations.contract()
        legacy_migrations.check()
        legacy_migrations.downgrade("base")
    assert without_derived(everything_legacy(legacy_migrations.database), before) == before


def test_downgrade_base_drops_nothing_that_the_migrations_did_not_create(
    contracted: Migrations, legacy_rows: Rows
) -> None:
    contracted.downgrade("base")
    ledger = {name for name in new_tables(contracted.database) if name.startswith("pipestate.")}
    assert tables(contracted.database) == set(legacy_rows) | ledger | {"pipestate_alembic_version"}
    assert "owner_email" in columns(contracted.database, "sites")
    assert "ocr_total" not in columns(contracted.database, "sites")


def test_rows_in_tables_of_the_migrations_survive_downgrade_base_and_the_way_back(
    migrations: Migrations,
) -> None:
    """No downgrade drops a row: a table that holds some goes into the archive and comes back."""
    migrations.upgrade("0005")
    database = migrations.database
    database.run(
        "INSERT INTO sites (subdomain, ocr_total) VALUES ('a.gov', 3)",
        "INSERT INTO content_items (id) VALUES (7)",
        "INSERT INTO jobs (id, status) VALUES (9, 'pending')",
        "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) "
        "VALUES (7, 'technical', 'pending')",
        "INSERT INTO job_results (job_id, directory_name, status, idempotency_key) VALUES (9, 'd', 'failed', 'k')",
        "INSERT INTO queue_history (job_id, event) VALUES (9, 'queued')",
        "INSERT INTO pipestate.attestation (runbook, phase, name, person) VALUES ('r', 'p', 'n', 'dba')",
        "INSERT INTO pipeline_job (subdomain, stage, job_key) VALUES ('a.gov', 'ocr', 'k1')",
    )
    held: tuple[str, ...] = (
        "sites",
        "jobs",
        "content_items",
        "content_item_pipeline_state",
        "job_results",
        "queue_history",
    )
    held += ("pipeline_job",)
    migrations.downgrade("base")
    assert not set(held) & tables(database)
    assert database.value("SELECT count(*) FROM pipestate.attestation") == 1, "the ledger stays where it is"
    migrations.upgrade("0005")
    for table in (*held, "pipestate.attestation"):
        assert database.value(f"SELECT count(*) FROM {table}") == 1, table
    migrations.contract()
    migrations.check()
    delete_job = "DELETE FROM jobs"
    database.run(delete_job)
    assert database.value("SELECT count(*) FROM job_results") == 0, "the foreign key did not come back"


def test_head_twice_is_nothing_to_do(migrations: Migrations) -> None:
    migrations.upgrade("head")
    migrations.upgrade("head")
    assert migrations.revision() == "0007"


@pytest.mark.scene
def test_each_revision_by_itself_can_be_taken_back(legacy_migrations: Migrations) -> None:
    for revision in ("0001", "0002", "0003", "0004", "0005", "0006", "0007"):
        if revision == "0006":
            make_ready(legacy_migrations.database)
        legacy_migrations.upgrade(revision)
        legacy_migrations.downgrade("-1")
        legacy_migrations.upgrade(revision)
        assert legacy_migrations.revision() == revision
