"""What is there already is adopted: nothing recreated, nothing lost, the rest brought to definition."""

import uuid

import pytest
import sqlalchemy as sa

from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations
from support.servers import Database

STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
COUNTERS = [f"{stage}_{what}" for stage in STAGES for what in ("total", "completed", "failed")]


def run_the_raw_sql(database: Database) -> None:
    """What the original guide had people paste: naive times, nullable counters, a textual default."""
    statements = ["ALTER TABLE sites ADD COLUMN current_stage VARCHAR"]
    statements += [
        f"ALTER TABLE sites ADD COLUMN {name} TIMESTAMP"
        for name in ("started_at", "updated_at", "last_error_at")
    ]
    statements += [f"ALTER TABLE sites ADD COLUMN {name} INT DEFAULT 0" for name in COUNTERS]
    false = "'FALSE'" if database.is_sqlite else "FALSE"
    statements += [
        f"ALTER TABLE sites ADD COLUMN coordinator_enqueued BOOLEAN DEFAULT {false}",
        "ALTER TABLE sites ADD COLUMN last_error_stage VARCHAR",
        "ALTER TABLE sites ADD COLUMN last_error_message TEXT",
        "CREATE INDEX idx_sites_current_stage ON sites (current_stage)",
        "CREATE INDEX idx_sites_updated_at ON sites (updated_at)",
        "CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) "
        "WHERE coordinator_enqueued = FALSE",
    ]
    database.run(*statements)


def column(database: Database, table: str, name: str) -> dict[str, object]:
    with database.engine.connect() as connection:
        (found,) = [dict(c) for c in sa.inspect(connection).get_columns(table) if c["name"] == name]
    return found


def test_columns_added_by_hand_are_brought_to_definition(legacy_migrations: Migrations) -> None:
    database = legacy_migrations.database
    run_the_raw_sql(database)
    database.run(
        "UPDATE sites SET ocr_total = NULL, ocr_failed = NULL, coordinator_enqueued = NULL "
        "WHERE subdomain < 'site100'",
        "UPDATE sites SET ocr_total = 7, updated_at = '2026-01-18 20:30:00' WHERE subdomain >= 'site100'",
    )
    legacy_migrations.contract()
    legacy_migrations.check()
    assert database.value("SELECT count(*) FROM sites WHERE ocr_total = 0 AND ocr_failed = 0") == 100
    assert database.value("SELECT count(*) FROM sites WHERE ocr_total = 7") == 200
    assert database.value("SELECT count(*) FROM sites WHERE coordinator_enqueued = false") == 300
    for name in (*COUNTERS, "coordinator_enqueued"):
        assert column(database, "sites", name)["nullable"] is False, name
    if not database.is_sqlite:
        time = "SELECT min(extract(epoch FROM updated_at)) FROM sites WHERE updated_at IS NOT NULL"
        assert database.value(time) == 1768768200  # 2026-01-18 20:30 UTC


def test_naive_times_are_read_in_the_zone_that_is_given(pg_legacy: Migrations) -> None:
    run_the_raw_sql(pg_legacy.database)
    pg_legacy.database.run("UPDATE sites SET updated_at = '2026-01-18 20:30:00'")
    pg_legacy.upgrade("0005", "naive-timezone=America/New_York")
    epoch = pg_legacy.database.value("SELECT DISTINCT extract(epoch FROM updated_at) FROM sites")
    assert epoch == 1768768200 + 5 * 3600


def test_naive_times_become_timestamptz_without_a_rewrite(pg_legacy: Migrations) -> None:
    run_the_raw_sql(pg_legacy.database)
    node = "SELECT relfilenode FROM pg_class WHERE oid = 'sites'::regclass"
    before = pg_legacy.database.value(node)
    pg_legacy.upgrade("0005")
    assert pg_legacy.database.value(node) == before
    kind = "SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'sites'::regclass AND attname = 'updated_at'"
    assert pg_legacy.database.value(kind) == "timestamp with time zone"
    assert pg_legacy.database.value("SELECT to_regclass('idx_sites_updated_at') IS NOT NULL") is True


def test_a_fresh_row_is_not_stuck_whatever_the_session_time_zone(pg_expanded: Migrations) -> None:
    """With naive columns, a client three hours to the west read a fresh row as stuck."""
    pg_expanded.database.run("UPDATE sites SET updated_at = now()")
    with pg_expanded.database.engine.connect() as connection:
        connection.exec_driver_sql("SET TimeZone = 'Asia/Tokyo'")
        stuck = "SELECT count(*) FROM sites WHERE updated_at < now() - interval '2 hours'"
        assert connection.exec_driver_sql(stuck).scalar() == 0


def test_what_was_added_by_hand_is_not_dropped_by_downgrade(legacy_migrations: Migrations) -> None:
    run_the_raw_sql(legacy_migrations.database)
    legacy_migrations.database.run("UPDATE sites SET ocr_total = 5")
    legacy_migrations.upgrade("0005")
    legacy_migrations.downgrade("base")
    assert legacy_migrations.database.value("SELECT sum(ocr_total) FROM sites") == 1500


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            "UPDATE sites SET ocr_failed = -1 WHERE subdomain < 'site003'",
            "3 rows of sites would break the rule",
        ),
        (
            "UPDATE sites SET current_stage = 'ocrr' WHERE subdomain < 'site002'",
            "2 rows of sites would break",
        ),
    ],
)
def test_rows_that_break_a_rule_are_named_before_anything_changes(
    legacy_migrations: Migrations, change: str, named: str
) -> None:
    run_the_raw_sql(legacy_migrations.database)
    legacy_migrations.database.run(change)
    with pytest.raises(MigrationError, match=named):
        legacy_migrations.upgrade("0003")
    assert legacy_migrations.revision() == "0002"
    legacy_migrations.database.run("UPDATE sites SET ocr_failed = 0, current_stage = 'ocr'")
    legacy_migrations.upgrade("0003")


def create_bare_pipeline_state(database: Database) -> None:
    """As an application's startup code makes it: no foreign key, no rules, no indexes, naive times."""
    key = "INTEGER PRIMARY KEY" if database.is_sqlite else "SERIAL PRIMARY KEY"
    database.run(
        f"CREATE TABLE content_item_pipeline_state (id {key}, content_item_id INTEGER NOT NULL, "
        "pipeline VARCHAR(20) NOT NULL, status VARCHAR(20), attempt_count INTEGER, "
        "error_code VARCHAR(100), error_message TEXT, last_attempt_at TIMESTAMP, processed_at TIMESTAMP, "
        "created_at TIMESTAMP, updated_at TIMESTAMP, mood VARCHAR)",
        "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status, mood, updated_at) VALUES "
        "(1, 'technical', 'pending', 'fine', '2026-01-01 00:00:00'), (1, 'fundamental', 'processed', NULL, NULL), "
        "(2, 'technical', 'failed_terminal', 'bad', NULL)",
    )


def test_a_pipeline_state_table_without_key_and_rules_gets_them_with_every_row(
    legacy_migrations: Migrations,
) -> None:
    database = legacy_migrations.database
    create_bare_pipeline_state(database)
    legacy_migrations.contract()
    legacy_migrations.check()
    rows = "SELECT content_item_id, pipeline, status, mood, attempt_count FROM content_item_pipeline_state ORDER BY id"
    assert database.rows(rows) == [
        (1, "technical", "pending", "fine", 0),
        (1, "fundamental", "processed", None, 0),
        (2, "technical", "failed_terminal", "bad", 0),
    ]
    for refused in (
        "UPDATE content_item_pipeline_state SET status = 'done'",
        "UPDATE content_item_pipeline_state SET pipeline = 'other'",
        "UPDATE content_item_pipeline_state SET content_item_id = 99",
        "UPDATE content_item_pipeline_state SET created_at = NULL",
        "UPDATE content_item_pipeline_state SET status = NULL",
        "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) VALUES (1, 'technical', 'pending')",
    ):
        with pytest.raises(sa.exc.IntegrityError):
            database.run(refused)
    database.run("DELETE FROM content_items WHERE id = 1")
    assert database.value("SELECT count(*) FROM content_item_pipeline_state") == 1, "no cascade"


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("(99, 'technical', 'pending')", "point at no row of content_items"),
        ("(1, 'technical', 'done')", "would break the rule ck_cips_status"),
        ("(2, 'fundamental', NULL)", "1 rows of content_item_pipeline_state have no value"),
        ("(1, 'technical', 'pending')", "uix_cips_content_item_pipeline|[Dd]uplicate|UNIQUE"),
    ],
)
def test_rows_of_an_adopted_pipeline_state_that_break_a_rule_are_named(
    legacy_0003: Migrations, row: str, named: str
) -> None:
    create_bare_pipeline_state(legacy_0003.database)
    legacy_0003.database.run(
        f"INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) VALUES {row}"
    )
    with pytest.raises(MigrationError, match=named):
        legacy_0003.upgrade("0004")
    assert legacy_0003.revision() == "0003"
    assert legacy_0003.database.value("SELECT count(*) FROM content_item_pipeline_state") == 4
    legacy_0003.database.run("DELETE FROM content_item_pipeline_state WHERE id = 4")
    legacy_0003.upgrade("0004")


def create_keyless_job_results(database: Database) -> None:
    key = "INTEGER PRIMARY KEY" if database.is_sqlite else "SERIAL PRIMARY KEY"
    database.run(
        f"CREATE TABLE jobs (id {key}, status VARCHAR, created_at TIMESTAMP, customer_id VARCHAR)",
        f"CREATE TABLE job_results (id {key}, job_id INTEGER NOT NULL, directory_name VARCHAR, "
        "status VARCHAR, created_at TIMESTAMP)",
        "INSERT INTO jobs (status) VALUES ('pending'), ('complete')",
        "INSERT INTO job_results (job_id, directory_name, status) VALUES "
        "(1, 'yelp', 'submitted'), (1, 'bing', 'failed'), (2, 'yelp', 'submitted')",
    )


def test_job_results_without_idempotency_key_get_unique_ones(legacy_migrations: Migrations) -> None:
    database = legacy_migrations.database
    create_keyless_job_results(database)
    legacy_migrations.upgrade("0005")
    assert database.value("SELECT count(DISTINCT idempotency_key) FROM job_results") == 3
    assert column(database, "job_results", "idempotency_key")["nullable"] is False
    with pytest.raises(sa.exc.IntegrityError):
        database.run("UPDATE job_results SET idempotency_key = 'same'")
    database.run("DELETE FROM jobs WHERE id = 1")
    assert database.value("SELECT count(*) FROM job_results") == 1


def test_writers_that_know_nothing_of_keys_go_on(pg_legacy: Migrations) -> None:
    create_keyless_job_results(pg_legacy.database)
    pg_legacy.upgrade("0005")
    pg_legacy.database.run(
        "INSERT INTO job_results (job_id, directory_name, status) VALUES (1, 'a', 'failed'), (1, 'b', 'failed')"
    )
    assert pg_legacy.database.value("SELECT count(DISTINCT idempotency_key) FROM job_results") == 5


def test_foreign_keys_follow_a_uuid(pg_legacy: Migrations) -> None:
    database, job = pg_legacy.database, uuid.uuid4()
    database.run(
        "CREATE TABLE jobs (id uuid PRIMARY KEY, status text, created_at timestamptz)",
        f"INSERT INTO jobs VALUES ('{job}', 'pending', now())",
    )
    pg_legacy.contract()
    pg_legacy.check()
    database.run(
        f"INSERT INTO job_results (job_id, directory_name, status, idempotency_key) VALUES ('{job}', 'd', 'failed', 'k')",
        f"INSERT INTO worker_heartbeats (worker_id, queue_name, status, current_job_id) VALUES ('w', 'q', 'idle', '{job}')",
        f"INSERT INTO queue_history (job_id, event) VALUES ('{job}', 'queued')",
        "DELETE FROM jobs",
    )
    assert database.value("SELECT count(*) FROM job_results") == 0
    assert database.rows("SELECT current_job_id FROM worker_heartbeats") == [(None,)]
    assert database.rows("SELECT job_id FROM queue_history") == [(job,)], "history outlives the job"


def test_foreign_keys_follow_a_text_key_on_sqlite(sqlite_database: Database) -> None:
    sqlite_database.run("CREATE TABLE jobs (id CHAR(32) PRIMARY KEY, status TEXT, created_at TIMESTAMP)")
    Migrations(sqlite_database).upgrade("head")
    assert str(column(sqlite_database, "job_results", "job_id")["type"]) == "CHAR(32)"


def test_the_applications_own_version_table_is_never_touched(contracted: Migrations) -> None:
    assert contracted.database.rows("SELECT * FROM alembic_version") == [("app_17",)]
    contracted.downgrade("base")
    assert contracted.database.rows("SELECT * FROM alembic_version") == [("app_17",)]


def test_extra_columns_triggers_views_and_rules_of_the_application_stay(
    legacy_migrations: Migrations,
) -> None:
    database = legacy_migrations.database
    database.run("CREATE VIEW app_view AS SELECT subdomain, owner_email FROM sites")
    if database.is_sqlite:
        database.run(
            "CREATE TRIGGER app_trigger AFTER UPDATE OF owner_email ON sites BEGIN "
            "UPDATE content_items SET title = 'touched' WHERE id = 1; END",
            "CREATE INDEX app_lower ON sites (lower(name))",
        )
    legacy_migrations.contract()
    legacy_migrations.downgrade("-2")
    assert database.value("SELECT count(*) FROM app_view WHERE owner_email LIKE 'owner%'") == 300
    with pytest.raises(sa.exc.IntegrityError):
        database.run("INSERT INTO sites (subdomain, pages) VALUES ('x.gov', -1)")
    if database.is_sqlite:
        names = "SELECT count(*) FROM sqlite_master WHERE name IN ('app_trigger', 'app_lower', 'app_sites_status')"
        assert database.value(names) == 3


def contract_by_hand(database: Database) -> None:
    """An application that has gone the whole way without us."""
    run_the_raw_sql(database)
    database.run("DROP INDEX app_sites_status", "DROP TABLE site_progress")
    for name in ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted"):
        database.run(f"ALTER TABLE sites DROP COLUMN {name}")


def test_a_contracted_database_is_recognised_and_can_be_stamped(legacy_migrations: Migrations) -> None:
    contract_by_hand(legacy_migrations.database)
    with pytest.raises(MigrationError, match=r"already contracted.*alembic stamp 0001"):
        legacy_migrations.contract()
    legacy_migrations.stamp("0001")
    legacy_migrations.contract()
    legacy_migrations.check()
    assert legacy_migrations.database.value("SELECT count(*) FROM sites") == 300
    legacy_migrations.downgrade("-2")
    assert legacy_migrations.revision() == "0005"
    legacy_migrations.contract()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE TABLE sites (id INTEGER PRIMARY KEY, url VARCHAR)", "sites exists, but without subdomain"),
        ("CREATE TABLE sites (subdomain VARCHAR)", "subdomain is not unique"),
        ("CREATE VIEW sites AS SELECT 'a' AS subdomain", "is not a plain table"),
        (
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state VARCHAR)",
            "jobs exists, but without status, created_at",
        ),
    ],
)
def test_a_table_of_the_right_name_and_the_wrong_shape_is_refused(
    migrations: Migrations, statement: str, named: str
) -> None:
    migrations.database.run(statement)
    with pytest.raises(MigrationError, match=named):
        migrations.upgrade("head")
    assert migrations.revision() is None
    with migrations.database.engine.connect() as connection:
        assert not sa.inspect(connection).has_table("site_progress"), "something was done all the same"


def test_a_counter_of_another_type_is_refused(pg_legacy: Migrations) -> None:
    pg_legacy.database.run("ALTER TABLE sites ADD COLUMN ocr_total TEXT")
    with pytest.raises(MigrationError, match=r"ocr_total as text, but that must hold integers"):
        pg_legacy.upgrade("0005")
    assert pg_legacy.revision() == "0002"
