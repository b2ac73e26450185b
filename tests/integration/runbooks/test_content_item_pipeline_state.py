"""Every check of content-item-pipeline-state: passes on a healthy database, fails on one that is broken."""

import time
from collections.abc import Iterator

import pytest

from alembics import Chain
from bed import Database, Postgres, Sqlite
from integration.runbooks.evaluate import answers, ids, not_passed, views, without_advice
from integration.runbooks.pipeline_state_cases import CASES, STATE, Broken, fill, insert, read_in_full
from outcomes import shipped
from pipestate.verify.verdict import Outcome

RUNBOOK = shipped("content-item-pipeline-state")


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("content-item-pipeline-state", fill)
    yield database
    bed.drop(database)


@pytest.mark.parametrize("phase", [phase.name for phase in RUNBOOK.phases])
def test_every_check_passes_on_a_healthy_database(healthy: Database, phase: str) -> None:
    found = answers(healthy, RUNBOOK, phase)
    assert list(found) == ids(RUNBOOK, phase)
    assert not_passed(found) == {}


@pytest.mark.parametrize(
    ("bed", "case"),
    [
        pytest.param(engine, case, id=f"{engine}-{case.check}: {case.how}")
        for case in CASES
        for engine in ("postgresql", "sqlite")
        if getattr(case, engine)
    ],
    indirect=["bed"],
)
def test_a_broken_database_fails_that_check_and_shows_why(healthy: Database, case: Broken) -> None:
    case.apply(healthy)
    found = answers(healthy, RUNBOOK, case.phase)
    assert set(not_passed(found)) == {case.check} | case.also
    assert found[case.check].failed, found[case.check].message
    assert found[case.check].evidence


def test_every_check_is_broken_on_each_engine() -> None:
    checks = {(phase.name, id) for phase in RUNBOOK.phases for id in ids(RUNBOOK, phase.name)}
    assert {(case.phase, case.check) for case in CASES if case.postgresql} == checks
    assert {(case.phase, case.check) for case in CASES if case.sqlite} == checks


def test_the_ids_are_those_that_scripts_rely_on() -> None:
    assert [id for phase in RUNBOOK.phases for id in ids(RUNBOOK, phase.name)] == [
        "table-exists",
        "required-columns",
        "required-indexes",
        "foreign-key",
        "status-values",
        "pipeline-values",
        "duplicate-keys",
        "invalid-status",
        "orphan-rows",
        "index-use",
    ]


def test_the_runbook_holds_at_head_and_on_an_empty_table(chain: Chain) -> None:
    chain.upgrade("head")
    for phase in RUNBOOK.phases:
        found = answers(chain.database, RUNBOOK, phase.name)
        assert {answer.outcome for answer in found.values()} == {Outcome.PASSED}


def test_an_adopted_table_passes_once_the_chain_has_run(chain: Chain) -> None:
    key = "INTEGER PRIMARY KEY" if chain.database.is_sqlite else "SERIAL PRIMARY KEY"
    chain.database.run(
        "CREATE TABLE content_items (id INTEGER PRIMARY KEY, title VARCHAR)",
        "INSERT INTO content_items VALUES (1, 'one')",
        f"CREATE TABLE {STATE} (id {key}, content_item_id INTEGER NOT NULL, pipeline VARCHAR NOT NULL, "
        "status TEXT NOT NULL, updated_at TIMESTAMP)",
        insert("1, 'technical', 'pending'"),
    )
    chain.upgrade("0005")
    for phase in RUNBOOK.phases:
        found = answers(chain.database, RUNBOOK, phase.name)
        assert {
            id: answer.message for id, answer in found.items() if answer.outcome is not Outcome.PASSED
        } == {}


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
    for _ in range(100):
        answer = answers(database, RUNBOOK, "operation")["index-use"]
        if answer.outcome is Outcome.PASSED:
            break
        time.sleep(0.05)
    assert answer.outcome is Outcome.PASSED, answer.message
    postgres.drop(database)


def test_a_planner_with_statistics_still_takes_the_indexes(sqlite: Sqlite) -> None:
    database = sqlite.copy_of("content-item-pipeline-state", fill)
    database.run("ANALYZE")
    assert answers(database, RUNBOOK, "operation")["index-use"].outcome is Outcome.PASSED
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
    evidence = answers(healthy, RUNBOOK, "schema")["required-indexes"].evidence
    assert [row[:3] for row in evidence] == [("missing", "idx_cips_error_code", "error_code")]


def test_only_the_rules_of_that_column_are_shown(postgres: Postgres) -> None:
    database = postgres.copy_of("content-item-pipeline-state", fill)
    database.run(
        f"ALTER TABLE {STATE} DROP CONSTRAINT ck_cips_pipeline",
        f"ALTER TABLE {STATE} ADD CONSTRAINT ck_cips_pipeline CHECK (pipeline IN ('technical', 'news')) NOT VALID",
    )
    ((fault, found),) = answers(database, RUNBOOK, "schema")["pipeline-values"].evidence
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


def test_every_check_has_advice_under_its_block() -> None:
    assert without_advice(RUNBOOK) == []
