"""What content-item-pipeline-state promises besides its cases: ids, adoption, corners, views, advice."""

import time
from collections.abc import Iterator

import pytest

from application.runbooks.content_item_pipeline_state_cases import PAGE, STATE, fill, insert, read_in_full
from pipestate.verify.report import Outcome
from support.alembic_runs import Migrations
from support.servers import Database, Postgres, Sqlite
from support.verdicts import checks_of, not_passed, rows_of, verdict, verdicts, views

RUNBOOK = PAGE.runbook


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    with PAGE.copy(bed, "operation") as database:
        yield database


def test_the_runbook_holds_at_head_and_on_an_empty_table(migrations: Migrations) -> None:
    migrations.upgrade("head")
    assert list(found := verdicts(migrations.database, RUNBOOK)) == checks_of(RUNBOOK)
    assert not_passed(found) == {}


def test_an_adopted_table_passes_once_the_migrations_have_run(migrations: Migrations) -> None:
    key = "INTEGER PRIMARY KEY" if migrations.database.is_sqlite else "SERIAL PRIMARY KEY"
    migrations.database.run(
        "CREATE TABLE content_items (id INTEGER PRIMARY KEY, title VARCHAR)",
        "INSERT INTO content_items VALUES (1, 'one')",
        f"CREATE TABLE {STATE} (id {key}, content_item_id INTEGER NOT NULL, pipeline VARCHAR NOT NULL, "
        "status TEXT NOT NULL, updated_at TIMESTAMP)",
        insert("1, 'technical', 'pending'"),
    )
    migrations.upgrade("0005")
    assert not_passed(verdicts(migrations.database, RUNBOOK)) == {}


def poll_through_the_index(database: Database, polls: int) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("SET enable_seqscan = off")
        for _ in range(polls):
            connection.exec_driver_sql(
                f"SELECT id FROM {STATE} WHERE pipeline = 'technical' AND status = 'failed_retryable' "
                "ORDER BY last_attempt_at LIMIT 10"
            )


def test_a_few_full_reads_beside_many_through_the_index_are_no_fault(postgres: Postgres) -> None:
    database = postgres.copy_of("content-item-pipeline-state", fill)
    read_in_full(database)
    poll_through_the_index(database, 1200)
    database.leave()  # a session that goes hands in what it has counted
    for _ in range(100):
        answer = verdict(database, RUNBOOK, "operation/index-use")
        if answer.outcome is Outcome.PASSED:
            break
        time.sleep(0.05)
    assert answer.outcome is Outcome.PASSED, answer.message
    postgres.drop(database)


def test_a_planner_with_statistics_still_takes_the_indexes(sqlite: Sqlite) -> None:
    database = sqlite.copy_of("content-item-pipeline-state", fill)
    database.run("ANALYZE")
    assert verdict(database, RUNBOOK, "operation/index-use").outcome is Outcome.PASSED
    sqlite.drop(database)


def test_the_views_show_the_backlog_and_the_errors(healthy: Database) -> None:
    found = views(healthy, RUNBOOK)
    assert [row[:3] for row in found["pipeline-backlog"]][:2] == [
        ("fundamental", "failed_retryable", 6),
        ("fundamental", "failed_terminal", 6),
    ]
    assert {row[0] for row in found["pipeline-errors"]} == {"timeout"}


def test_only_the_index_that_is_wrong_is_shown(healthy: Database) -> None:
    healthy.run("DROP INDEX idx_cips_error_code")
    evidence = rows_of(verdict(healthy, RUNBOOK, "schema/required-indexes"))
    assert [row[:3] for row in evidence] == [("missing", "idx_cips_error_code", "error_code")]


def test_only_the_rules_of_that_column_are_shown(postgres: Postgres) -> None:
    database = postgres.copy_of("content-item-pipeline-state", fill)
    database.run(
        f"ALTER TABLE {STATE} DROP CONSTRAINT ck_cips_pipeline",
        f"ALTER TABLE {STATE} ADD CONSTRAINT ck_cips_pipeline CHECK (pipeline IN ('technical', 'news')) NOT VALID",
    )
    ((fault, found),) = rows_of(verdict(database, RUNBOOK, "schema/pipeline-values"))
    assert fault == "no validated rule says exactly this"
    assert "news" in str(found)
    assert "pending" not in str(found)
    postgres.drop(database)


def test_no_check_advises_to_take_the_table_away() -> None:
    """A downgrade is the last resort, and its warning stands right above it."""
    page = RUNBOOK.text
    warning = page.index("Do not drop `content_item_pipeline_state` in production")
    assert warning < page.index("alembic downgrade")
    assert page.count("alembic downgrade") == 1
