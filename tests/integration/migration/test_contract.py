"""The contract revisions: what closes them, what they keep, what the way back derives."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from pipestate.gate import GateClosed
from pipestate.migration import purge
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql import session
from support.alembic_runs import Migrations, dump, psql
from support.legacy_database import Rows, everything_legacy, without_derived
from support.servers import Database

LEGACY = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")


def columns(database: Database, table: str) -> list[str]:
    return [str(column["name"]) for column in sa.inspect(database.engine).get_columns(table)]


def test_a_recent_write_to_site_progress_keeps_the_gate_closed(expanded: Migrations) -> None:
    expanded.database.run(
        "UPDATE site_progress SET updated_at = CURRENT_TIMESTAMP WHERE subdomain < 'site003'"
    )
    with pytest.raises(GateClosed, match=r"recent-site-progress-writes: 2 rows, first: fault"):
        expanded.contract()
    assert expanded.revision() == "0005"
    assert expanded.database.value("SELECT count(*) FROM site_progress") == 257


def test_a_closed_gate_keeps_the_expansion(legacy_migrations: Migrations) -> None:
    legacy_migrations.database.run("UPDATE site_progress SET updated_at = CURRENT_TIMESTAMP")
    with pytest.raises(GateClosed, match="the gate sites-consolidation/readiness is closed"):
        legacy_migrations.upgrade("head")
    assert legacy_migrations.revision() == "0005"


def test_a_recent_write_to_the_legacy_columns_keeps_0007_from_running(expanded: Migrations) -> None:
    expanded.contract("0006")
    text = (
        "strftime('%Y-%m-%dT%H:%M:%S', 'now')"
        if expanded.database.is_sqlite
        else "to_char(now(), 'YYYY-MM-DD\"T\"HH24:MI:SS')"
    )
    expanded.database.run(f"UPDATE sites SET last_updated = {text} WHERE subdomain = 'site001.example.gov'")
    with pytest.raises(GateClosed, match=r"recent-legacy-column-writes: 1 row, first: fault"):
        expanded.upgrade("head")
    assert expanded.revision() == "0006"


def test_force_goes_through_and_is_written_down(expanded: Migrations) -> None:
    expanded.database.run("UPDATE site_progress SET updated_at = CURRENT_TIMESTAMP")
    expanded.upgrade("head", "force=incident 42")
    assert expanded.revision() == "0007"
    ledger = expanded.database.rows(
        "SELECT DISTINCT event, reason, revision, gate FROM pipestate.run ORDER BY revision"
    )
    assert ("force", "incident 42", "0006", "closed") in ledger
    assert ("force", "incident 42", "0007", "closed") in ledger


def test_an_empty_reason_is_no_reason(legacy_migrations: Migrations) -> None:
    with pytest.raises(MigrationError, match="-x force= is empty"):
        legacy_migrations.upgrade("head", "force= ")


def test_an_unknown_option_is_refused(legacy_migrations: Migrations) -> None:
    with pytest.raises(MigrationError, match="unknown option -x nave-timezone"):
        legacy_migrations.upgrade("head", "nave-timezone=UTC")


def test_the_archived_table_frees_all_its_names_and_comes_back_identical(pg_expanded: Migrations) -> None:
    before = dump(pg_expanded.database)
    pg_expanded.contract("0006")
    pg_expanded.database.run(
        "CREATE TABLE site_progress (subdomain text CONSTRAINT site_progress_pkey PRIMARY KEY)",
        "DROP TABLE site_progress",
    )
    pg_expanded.downgrade("0005")
    after = dump(pg_expanded.database)
    assert without_archive(after) == without_archive(before)


DERIVED = 36  # carried over sites of the legacy database that never had a row in site_progress


def without_archive(text: str) -> list[str]:
    """What the ledger keeps of a contract is left out; everything else must be the same."""
    return [block for block in text.split(";\n") if "pipestate_archive" not in block]


def test_a_foreign_key_of_the_archived_table_does_not_hold_back_deletes_and_comes_back(
    pg_expanded: Migrations,
) -> None:
    database = pg_expanded.database
    database.run("ALTER TABLE site_progress ADD CONSTRAINT app_fk FOREIGN KEY (subdomain) REFERENCES sites")
    archived = set(database.rows("SELECT subdomain, stage_total FROM site_progress"))
    pg_expanded.contract()
    database.run("DELETE FROM sites WHERE subdomain = 'site001.example.gov'")
    pg_expanded.downgrade("-2")
    rows = set(database.rows("SELECT subdomain, stage_total FROM site_progress"))
    assert len(archived) == 257
    assert archived <= rows, "an archived row was lost"
    assert database.rows("SELECT convalidated FROM pg_constraint WHERE conname = 'app_fk'") == [(False,)]
    database.run("DELETE FROM site_progress WHERE subdomain = 'site001.example.gov'")
    database.run("ALTER TABLE site_progress VALIDATE CONSTRAINT app_fk")


def test_a_foreign_key_whose_rows_all_have_parents_comes_back_valid(pg_expanded: Migrations) -> None:
    pg_expanded.database.run(
        "ALTER TABLE site_progress ADD CONSTRAINT app_fk FOREIGN KEY (subdomain) REFERENCES sites"
    )
    pg_expanded.contract()
    pg_expanded.downgrade("-2")
    assert pg_expanded.database.rows("SELECT convalidated FROM pg_constraint WHERE conname = 'app_fk'") == [
        (True,)
    ]


def test_a_table_made_anew_under_the_archived_name_is_not_overwritten(pg_contracted: Migrations) -> None:
    pg_contracted.database.run("CREATE TABLE site_progress (subdomain text)")
    with pytest.raises(MigrationError, match="site_progress exists again"):
        pg_contracted.downgrade("-2")
    pg_contracted.database.run("DROP TABLE site_progress")
    pg_contracted.downgrade("0005")
    assert pg_contracted.database.value("SELECT count(*) FROM site_progress") == 257 + DERIVED


@pytest.mark.parametrize(
    ("statement", "revision", "named"),
    [
        ("CREATE VIEW app_progress AS SELECT * FROM site_progress", "0005", r"view (public\.)?app_progress"),
        (
            "CREATE VIEW app_status AS SELECT subdomain, status FROM sites",
            "0006",
            r"view (public\.)?app_status",
        ),
    ],
)
def test_views_on_what_goes_are_refused(
    expanded: Migrations, statement: str, revision: str, named: str
) -> None:
    expanded.database.run(statement)
    with pytest.raises(MigrationError, match=f"cannot be dropped while others depend on it: {named}"):
        expanded.upgrade("head", "force=even then")
    assert expanded.revision() == revision


def test_a_foreign_key_that_points_at_what_goes_is_refused(expanded: Migrations) -> None:
    expanded.database.run("CREATE TABLE notes (site VARCHAR REFERENCES site_progress (subdomain))")
    with pytest.raises(
        MigrationError, match=r"cannot be dropped while others depend on it: foreign key .*of .*notes"
    ):
        expanded.upgrade("head", "force=even then")
    assert expanded.revision() == "0005"


CHANGES = {
    # what happened to a site after the contract -> the status that the old code would have written
    "current_stage = 'ocr', ocr_total = 4, ocr_completed = 1": "needs_ocr",
    "current_stage = 'extraction', extraction_total = 1": "needs_extraction",
    "current_stage = 'compilation', compilation_total = 1": "needs_extraction",
    "current_stage = 'deploy', deploy_total = 1": "needs_deploy",
    "current_stage = 'completed'": "deployed",
    "current_stage = 'completed', last_error_message = 'No PDFs found during fetch'": "no_documents",
    "current_stage = 'completed', last_error_message = 'fetch: the site has no documents'": "no_documents",
}


def test_a_site_that_changed_since_gets_what_the_old_code_would_have_written(
    contracted: Migrations, legacy_rows: Rows
) -> None:
    database = contracted.database
    later = "datetime('now', '+1 minute')" if database.is_sqlite else "now() + interval '1 minute'"
    changed = {f"site{number:03}.example.gov": change for number, change in enumerate(CHANGES, start=8)}
    database.run(
        *(
            f"UPDATE sites SET {change}, updated_at = {later} WHERE subdomain = '{site}'"
            for site, change in changed.items()
        )
    )
    contracted.downgrade("-2")
    after = without_derived(everything_legacy(database), legacy_rows)
    for site, change in changed.items():
        status = CHANGES[change]
        (row,) = [row for row in after["sites"] if row[0] == site]
        assert row[2] == status, change
        assert str(row[4]).startswith("20"), change
        (progress,) = database.rows(f"SELECT * FROM site_progress WHERE subdomain = '{site}'")
        assert progress[1] == change.split("'")[1]
        if "ocr_total" in change:
            assert progress[2:4] == (4, 1)
        if status in ("deployed", "no_documents"):
            assert progress[2:4] == (1, 1), change
    for table in ("sites", "site_progress"):
        untouched = [row for row in after[table] if row[0] not in changed]
        assert untouched == [row for row in legacy_rows[table] if row[0] not in changed], table


def test_a_clock_that_is_ahead_makes_no_change(expanded: Migrations) -> None:
    """Its time is later than the contract, but nobody has touched it."""
    database = expanded.database
    ahead = "9999-12-31 00:00:00" if database.is_sqlite else "infinity"
    database.run(
        f"UPDATE sites SET status = 'weird', current_stage = 'completed', updated_at = '{ahead}' "
        "WHERE subdomain = 'site008.example.gov'"
    )
    before = everything_legacy(database)
    expanded.contract()
    expanded.downgrade("-2")
    assert without_derived(everything_legacy(database), before) == before


def test_a_site_that_is_new_since_gets_derived_legacy_values(contracted: Migrations) -> None:
    database = contracted.database
    database.run(
        "INSERT INTO sites (subdomain, current_stage, ocr_total, updated_at) "
        "VALUES ('new.gov', 'ocr', 5, CURRENT_TIMESTAMP)",
        "INSERT INTO sites (subdomain) VALUES ('idle.gov')",
    )
    contracted.downgrade("-2")
    legacy = "SELECT status, extraction_status FROM sites WHERE subdomain = '{}'"
    assert database.rows(legacy.format("new.gov")) == [("needs_ocr", "pending")]
    assert database.rows(legacy.format("idle.gov")) == [(None, "pending")]
    progress = "SELECT current_stage, stage_total FROM site_progress WHERE subdomain = '{}'"
    assert database.rows(progress.format("new.gov")) == [("ocr", 5)]
    assert database.rows(progress.format("idle.gov")) == []


def test_archived_times_that_nothing_replaced_are_kept(expanded: Migrations) -> None:
    database = expanded.database
    site = "site003.example.gov"  # deployed once, with a time
    ((deployed,),) = database.rows(f"SELECT last_deployed FROM sites WHERE subdomain = '{site}'")
    assert deployed is not None
    expanded.contract()
    later = "datetime('now', '+1 minute')" if database.is_sqlite else "now() + interval '1 minute'"
    database.run(f"UPDATE sites SET current_stage = 'ocr', updated_at = {later} WHERE subdomain = '{site}'")
    expanded.downgrade("-2")
    row = database.rows(f"SELECT status, last_deployed FROM sites WHERE subdomain = '{site}'")
    assert row == [("needs_ocr", deployed)]


def test_indexes_defaults_and_comments_of_the_dropped_columns_come_back(pg_expanded: Migrations) -> None:
    database = pg_expanded.database
    database.run(
        "COMMENT ON TABLE sites IS 'the application''s own words'",
        "COMMENT ON COLUMN sites.status IS 'old'",
        "CREATE UNIQUE INDEX app_unique ON sites (subdomain, status) WHERE status <> 'x'",
        "ALTER TABLE sites ADD CONSTRAINT app_rule CHECK (status <> 'never')",
        "UPDATE sites SET extraction_status = 'pending' WHERE extraction_status IS NULL",
        "ALTER TABLE sites ALTER extraction_status SET NOT NULL",
    )
    hanging = (
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'sites'::regclass "
        "UNION SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'sites'::regclass "
        "UNION SELECT attname || attnotnull || coalesce(col_description(attrelid, attnum), '') FROM pg_attribute "
        "WHERE attrelid = 'sites'::regclass AND attnum > 0 AND NOT attisdropped "
        "UNION SELECT obj_description('sites'::regclass) ORDER BY 1"
    )
    before = database.rows(hanging)
    pg_expanded.contract()
    assert database.value("SELECT obj_description('sites'::regclass)") != "the application's own words"
    pg_expanded.downgrade("-2")
    assert database.rows(hanging) == before


def test_a_downgrade_after_a_purge_is_refused_without_force(contracted: Migrations) -> None:
    with contracted.database.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="0007")
    with pytest.raises(MigrationError, match=r"status, .*sites.*alembic -x force=."):
        contracted.downgrade("-1")
    assert contracted.revision() == "0007"
    contracted.downgrade("-1", "force=we need the columns")
    assert contracted.revision() == "0006"
    assert "status" in columns(contracted.database, "sites")
    forced = "SELECT reason, revision FROM pipestate.run WHERE event = 'force'"
    ((reason, revision),) = contracted.database.rows(forced)
    assert (str(reason).endswith(": we need the columns"), revision) == (True, "0007")


@pytest.mark.parametrize("recheck", ["recent-legacy-column-writes"])
def test_a_write_just_before_the_lock_closes_the_gate(
    pg_expanded: Migrations, monkeypatch: pytest.MonkeyPatch, recheck: str
) -> None:
    """The old code comes back to life between the first pass and the lock."""
    pg_expanded.contract("0006")
    late_write(
        pg_expanded,
        monkeypatch,
        "UPDATE sites SET last_updated = to_char(now(), 'YYYY-MM-DD\"T\"HH24:MI:SS') WHERE subdomain = 'site002.example.gov'",
    )
    with pytest.raises(GateClosed, match=recheck):
        pg_expanded.contract()
    assert pg_expanded.revision() == "0006"
    assert "status" in columns(pg_expanded.database, "sites")


def late_write(migrations: Migrations, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Have somebody write just before the tables are locked."""
    lock_tables = session.lock_tables

    def write_then_lock(*tables: str, **options: object) -> None:
        if tables == ("sites",):
            migrations.database.run(statement)
        lock_tables(*tables, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "lock_tables", write_then_lock)


def test_the_contracts_leave_no_trigger(pg_contracted: Migrations) -> None:
    assert pg_contracted.database.rows("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal") == []


def test_what_the_source_documents_look_at_holds(pg_contracted: Migrations) -> None:
    """Seed 002: none of the five names, no table, two steps down bring both back, and after a purge they are gone."""
    database = pg_contracted.database
    described = psql(database, "\\d sites").stdout
    for name in LEGACY:
        assert not re.search(rf"\b{name}\b", described), described
    assert "site_progress" not in psql(database, "\\dt").stdout
    with database.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="0007")
    assert "_pipestate_" not in psql(database, "\\d sites").stdout


def test_sqlite_foreign_keys_are_on_after_a_migration_on_a_lent_connection(sqlite_database: Database) -> None:
    from alembic import command

    from support.alembic_runs import config_for

    config = config_for(sqlite_database.text)
    with sqlite_database.engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        with pytest.raises(sa.exc.IntegrityError):
            connection.exec_driver_sql(
                "INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status) "
                "VALUES (5, 'technical', 'pending')"
            )


# --- What is evaluated while everybody waits ----------------------------------------------------------


@contextmanager
def statements_sent() -> Iterator[list[str]]:
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        sent.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_little_is_evaluated_while_0007_holds_its_lock(pg_expanded: Migrations) -> None:
    pg_expanded.contract("0006")
    with statements_sent() as sent:
        pg_expanded.upgrade("0007")
    locked = max(number for number, each in enumerate(sent) if "pipestate.lock_tables" in each)
    stamped = next(
        number for number, each in enumerate(sent) if each.startswith("UPDATE pipestate_alembic_version")
    )
    under_the_lock = sent[locked + 1 : stamped]
    assert len(under_the_lock) <= 20, under_the_lock
    assert not [each for each in under_the_lock if "pipestate.run" in each]
