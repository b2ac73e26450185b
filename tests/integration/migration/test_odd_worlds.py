"""Adopted databases that are not as the documents have them: there and back without a loss."""

import pytest
from alembic import command

from pipestate.database.connections import reader
from pipestate.gate import GateClosed
from pipestate.migration import purge
from pipestate.migration.failure import MigrationError
from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from pipestate.runbook.files import find_runbooks
from support.alembic_runs import Migrations, config_for, run_alembic
from support.legacy_database import fill_legacy
from support.runbook_samples import verify
from support.servers import Database

SHIPPED = find_project(Named(shipped=True))
SITES = """CREATE TABLE sites (subdomain varchar PRIMARY KEY, name varchar, status varchar,
    extraction_status varchar DEFAULT 'pending', last_updated varchar, last_deployed varchar, last_extracted varchar)"""
SITE_PROGRESS = """CREATE TABLE site_progress (subdomain varchar PRIMARY KEY, current_stage varchar,
    stage_total int DEFAULT 0 NOT NULL, stage_completed int DEFAULT 0 NOT NULL,
    started_at timestamp, updated_at timestamp)"""
ROWS = (
    "INSERT INTO sites (subdomain, name, status, extraction_status, last_updated, last_deployed) VALUES "
    "('a', 'A', 'deployed', 'completed', '2025-01-01T00:00:00', '2025-01-02'), "
    "('b', 'B', 'needs_ocr', 'pending', '2025-01-03T00:00:00', NULL)",
    "INSERT INTO site_progress (subdomain, current_stage, stage_total, stage_completed, started_at, updated_at) "
    "VALUES ('a', 'completed', 1, 1, '2025-01-01', '2025-01-01'), ('b', 'ocr', 7, 3, '2025-01-01', '2025-01-01')",
)
VALUES = (
    "SELECT subdomain, status, extraction_status, last_updated, last_deployed FROM sites ORDER BY subdomain"
)
PROGRESS = (
    "SELECT subdomain, current_stage, stage_total, stage_completed FROM site_progress ORDER BY subdomain"
)


def test_a_legacy_default_that_changes_with_time_does_not_keep_values_from_coming_back(
    database: Database,
) -> None:
    now = "CURRENT_TIMESTAMP" if database.is_sqlite else "(now())::text"
    database.run(
        SITES.replace("last_updated varchar", f"last_updated varchar DEFAULT {now}"), SITE_PROGRESS, *ROWS
    )
    before = database.rows(VALUES)
    migrations = Migrations(database)
    migrations.contract()
    migrations.downgrade("0005")
    assert database.rows(VALUES) == before
    database.run("INSERT INTO sites (subdomain) VALUES ('c')")
    assert database.value("SELECT count(*) FROM sites WHERE subdomain = 'c' AND last_updated > '2026'") == 1


def test_rows_that_a_policy_hides_are_an_error_and_not_an_empty_table(pg: Database) -> None:
    pg.run(
        "DROP ROLE IF EXISTS hidden_owner",
        "CREATE ROLE hidden_owner LOGIN SUPERUSER PASSWORD 'x'",
        f"ALTER DATABASE {pg.url.database} OWNER TO hidden_owner",
    )
    owned = Database(pg.url.set(username="hidden_owner", password="x"))
    owned.run(SITES, SITE_PROGRESS, *ROWS)
    migrations = Migrations(owned)
    migrations.upgrade("0005")
    pg.run(
        "ALTER ROLE hidden_owner NOSUPERUSER",
        "ALTER TABLE sites ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE sites FORCE ROW LEVEL SECURITY",
        "CREATE POLICY tenants ON sites USING (name = current_setting('app.tenant', true))",
    )
    try:
        with pytest.raises(MigrationError, match="row-level security"):
            migrations.contract()
        assert pg.value("SELECT count(status) FROM sites") == 2
        (report,) = [
            verify(owned.url, [(book, phase)], locator(SHIPPED, read_migrations(SHIPPED)))
            for book in find_runbooks(["sites-consolidation"], SHIPPED.runbooks)
            for phase in book.phases
            if phase.name == "readiness"
        ]
        outcomes = {v.check_id: str(v.outcome) for _, p in report.phases() for v in p.checks}
        assert outcomes["stuck-sites"] == "errored"
    finally:
        pg.run(
            f"ALTER DATABASE {pg.url.database} OWNER TO CURRENT_USER",
            "REASSIGN OWNED BY hidden_owner TO CURRENT_USER",
            "DROP ROLE hidden_owner",
        )


def test_the_search_path_of_the_url_holds_for_pipestate_too(pg: Database) -> None:
    pg.run("CREATE SCHEMA app", "CREATE TABLE app.here (n int)")
    url = pg.url.update_query_dict({"options": "-csearch_path=app"})
    with reader(url) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM here").scalar() == 0
        assert connection.exec_driver_sql("SHOW TimeZone").scalar() == "UTC"


@pytest.mark.parametrize("what", ["closed", "current", "done"])
def test_a_lent_connection_comes_back_as_it_was(pg: Database, what: str) -> None:
    pg.run(SITES, SITE_PROGRESS, *ROWS)
    Migrations(pg).upgrade("0005")
    names = ["statement_timeout", "TimeZone", "lock_timeout", "row_security"]
    with pg.engine.connect() as connection:
        if int(str(pg.value("SHOW server_version_num"))) >= 140000:
            names.append("client_connection_check_interval")
        connection.exec_driver_sql("SET statement_timeout = '7s'; SET TimeZone = 'Europe/Paris'")
        connection.commit()
        before = [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
        connection.rollback()
        config = config_for(pg.text)
        config.attributes["connection"] = connection
        if what == "closed":
            with pytest.raises(GateClosed):
                command.upgrade(config, "head")
        elif what == "current":
            command.current(config)
        else:
            command.upgrade(config, "0005")
        assert [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names] == before
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.exec_driver_sql(held).scalar() == 0


def test_a_schema_whose_name_needs_quotes(pg: Database) -> None:
    pg.run('CREATE SCHEMA "My App"', f'ALTER DATABASE {pg.url.database} SET search_path = "My App"')
    pg.run(SITES, SITE_PROGRESS, *ROWS)
    before = pg.rows(VALUES), pg.rows(PROGRESS)
    migrations = Migrations(pg)
    migrations.contract()
    migrations.downgrade("0005")
    assert (pg.rows(VALUES), pg.rows(PROGRESS)) == before


def test_job_results_whose_id_is_a_uuid_get_their_keys(pg: Database) -> None:
    pg.run(
        "CREATE TABLE jobs (id uuid PRIMARY KEY, status text, created_at timestamptz)",
        "CREATE TABLE job_results (id uuid PRIMARY KEY, job_id uuid NOT NULL, directory_name text, "
        "status text, created_at timestamptz)",
        "INSERT INTO jobs VALUES (gen_random_uuid(), 'done', now())",
        "INSERT INTO job_results SELECT gen_random_uuid(), id, 'd', 'failed', now() "
        "FROM jobs, generate_series(1, 5000)",
    )
    Migrations(pg).upgrade("0005")
    assert pg.value("SELECT count(DISTINCT idempotency_key) FROM job_results") == 5000


def test_an_index_that_could_not_be_rebuilt_is_not_left_invalid(pg: Database) -> None:
    pg.run(SITES, SITE_PROGRESS, *ROWS, "CREATE UNIQUE INDEX app_unique ON sites (last_updated)")
    migrations = Migrations(pg)
    migrations.contract()
    pg.run("UPDATE sites SET updated_at = '2050-01-01', current_stage = 'deploy'")
    migrations.downgrade("0006")
    assert pg.value("SELECT to_regclass('app_unique')") is None


def test_types_of_the_applications_own_do_not_stand_in_the_way_back(pg: Database) -> None:
    pg.run(
        "CREATE TYPE status AS ENUM ('deployed', 'needs_ocr', 'needs_deploy')",
        "CREATE TYPE stage AS ENUM ('completed', 'ocr', 'deploy')",
        SITES.replace("status varchar,", "status status,", 1).replace(
            "last_deployed varchar", "last_deployed timestamptz"
        ),
        SITE_PROGRESS.replace("current_stage varchar", "current_stage stage"),
        *ROWS,
    )
    migrations = Migrations(pg)
    migrations.upgrade("0005")
    migrations.upgrade("head", "force=last_deployed is no text here")
    pg.run(
        "UPDATE sites SET current_stage = 'deploy', deploy_total = 5, updated_at = now() WHERE subdomain = 'b'",
        "INSERT INTO sites (subdomain, current_stage, updated_at) VALUES ('c', 'extraction', now())",
    )
    migrations.downgrade("0005")
    assert pg.rows("SELECT subdomain, status::text FROM sites ORDER BY 1") == [
        ("a", "deployed"),
        ("b", "needs_deploy"),
        ("c", None),
    ]
    assert pg.value("SELECT last_deployed = '2025-01-02' FROM sites WHERE subdomain = 'a'") is True
    assert pg.rows(PROGRESS) == [("a", "completed", 1, 1), ("b", "deploy", 5, 0), ("c", None, 0, 0)]


def test_columns_of_site_progress_that_must_have_a_value_do_not_stop_the_way_back(database: Database) -> None:
    database.run(
        SITES,
        SITE_PROGRESS.replace("updated_at timestamp)", "updated_at timestamp, worker varchar NOT NULL)"),
        ROWS[0],
        "INSERT INTO site_progress VALUES ('a', 'completed', 1, 1, NULL, NULL, 'w1'), ('b', 'ocr', 7, 3, NULL, NULL, 'w2')",
    )
    migrations = Migrations(database)
    migrations.contract()
    database.run(
        "UPDATE sites SET current_stage = 'deploy', deploy_total = 5, updated_at = '2050-01-01 00:00:00' WHERE subdomain = 'b'",
        "INSERT INTO sites (subdomain, current_stage) VALUES ('c', 'ocr')",
    )
    migrations.downgrade("0005")
    assert database.rows(
        "SELECT subdomain, current_stage, stage_total, worker FROM site_progress ORDER BY 1"
    ) == [
        ("a", "completed", 1, "w1"),
        ("b", "deploy", 5, "w2"),
    ]


def test_forced_back_after_a_purge_the_columns_are_there_and_empty(database: Database) -> None:
    database.run(SITES, SITE_PROGRESS, *ROWS)
    migrations = Migrations(database)
    migrations.contract()
    with database.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="0007")
    with pytest.raises(MigrationError, match=r"status, .*sites"):
        migrations.downgrade("0005")
    migrations.downgrade("0005", "force=there is no other way")
    assert database.rows("SELECT subdomain FROM sites ORDER BY 1") == [("a",), ("b",)]
    assert database.rows(PROGRESS) == []


def test_forced_back_where_the_whole_archive_is_gone(pg: Database) -> None:
    pg.run(SITES, SITE_PROGRESS, *ROWS)
    migrations = Migrations(pg)
    migrations.contract("0006")
    pg.run("DROP SCHEMA pipestate_archive CASCADE")
    migrations.downgrade("0005", "force=it was dropped by hand")
    assert pg.rows(PROGRESS) == []


def test_a_trigger_that_sets_updated_at_does_not_make_every_site_look_changed(pg: Database) -> None:
    pg.run(SITES, SITE_PROGRESS, *ROWS)
    migrations = Migrations(pg)
    migrations.upgrade("0005")
    pg.run(
        "UPDATE sites SET current_stage = 'completed', updated_at = '2025-02-01'",
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at = now(); RETURN NEW; END'",
        "CREATE TRIGGER touch BEFORE UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION touch()",
    )
    before = pg.rows(VALUES), pg.rows("SELECT * FROM site_progress ORDER BY 1")
    migrations.contract()
    migrations.downgrade("0005")
    assert (pg.rows(VALUES), pg.rows("SELECT * FROM site_progress ORDER BY 1")) == before
    assert pg.value("SELECT count(*) FROM sites WHERE updated_at = '2025-02-01'") == 2


@pytest.mark.parametrize(
    "given",
    ["postgresql://app:s3cret@db/civic?sslmode=require", "url=postgresql://app:pa@s3cret@localhost:1/db"],
)
def test_a_password_in_a_mistyped_option_is_not_repeated(given: str) -> None:
    done = run_alembic("-x", given, "upgrade", "head")
    assert done.returncode != 0
    assert "s3cret" not in done.stdout + done.stderr


def test_what_a_legacy_column_had_besides_values_comes_back(pg: Database) -> None:
    pg.run(
        SITES.replace("status varchar,", 'status varchar COLLATE "C",', 1),
        SITE_PROGRESS,
        *ROWS,
        "GRANT SELECT (status), UPDATE (last_updated) ON sites TO PUBLIC",
    )
    query = (
        "SELECT attname::text, attcollation::regcollation::text, attacl::text FROM pg_attribute "
        "WHERE attrelid = 'sites'::regclass AND attname IN ('status', 'last_updated') ORDER BY 1"
    )
    before = pg.rows(query)
    migrations = Migrations(pg)
    migrations.contract()
    migrations.downgrade("0005")
    assert pg.rows(query) == before


def test_a_computed_legacy_column_is_hidden_and_restored(pg: Database) -> None:
    pg.run(
        SITES.replace("last_extracted varchar", "last_extracted varchar GENERATED ALWAYS AS (name) STORED"),
        SITE_PROGRESS,
        *ROWS,
    )
    before = pg.rows("SELECT subdomain, last_extracted FROM sites ORDER BY 1")
    migrations = Migrations(pg)
    migrations.contract()
    migrations.downgrade("0005")
    assert pg.rows("SELECT subdomain, last_extracted FROM sites ORDER BY 1") == before


def test_rows_without_a_key_are_refused_at_the_start(pg: Database) -> None:
    pg.run(
        SITES.replace("varchar PRIMARY KEY", "varchar UNIQUE"), "INSERT INTO sites (name) VALUES ('nameless')"
    )
    with pytest.raises(MigrationError, match="sites has rows without a subdomain"):
        Migrations(pg).upgrade("0005")


@pytest.mark.parametrize(
    "index",
    [
        "CREATE INDEX e ON sites (lower(status))",
        "CREATE INDEX e ON sites (name) WHERE Status = 'x'",
        "CREATE UNIQUE INDEX e ON sites (subdomain, status)",
        "CREATE UNIQUE INDEX e ON sites (lower(subdomain)) WHERE last_updated IS NULL",
    ],
)
def test_an_index_that_names_a_legacy_column_goes_and_comes_back_on_sqlite(
    sqlite_database: Database, index: str
) -> None:
    fill_legacy(sqlite_database, sites=20)
    sqlite_database.run(index)
    query = "SELECT lower(sql) FROM sqlite_master WHERE type = 'index' AND name = 'e'"
    migrations = Migrations(sqlite_database)
    migrations.contract()
    assert sqlite_database.rows(query) == []
    migrations.downgrade("-2")
    assert sqlite_database.value(query) == index.lower()
