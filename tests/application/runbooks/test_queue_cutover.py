"""What queue-cutover promises besides its cases: ids, sign-offs, bounds, what its evidence shows, views."""

import re
from collections.abc import Iterator

import pytest

from application.runbooks.queue_cutover_cases import PAGE, add_job, observe
from support.alembic_runs import Migrations
from support.servers import Database, Postgres, Sqlite
from support.sql_times import run_timed
from support.verdicts import checks_of, ids, not_passed, rows_of, verdict, verdicts, views

RUNBOOK = PAGE.runbook


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    with PAGE.copy(bed, "cutover") as database:
        yield database


def test_the_acceptance_test_is_evaluated_in_every_phase() -> None:
    assert all("acceptance-passed" in {each.id for each in phase.signoffs} for phase in RUNBOOK.phases)


def test_a_word_given_for_one_phase_is_not_taken_for_another() -> None:
    commands = re.findall(r"pipestate attest (\S+)", RUNBOOK.text)
    named = {f"{RUNBOOK.name}/{phase.name}/{each.id}" for phase in RUNBOOK.phases for each in phase.signoffs}
    assert commands
    assert set(commands) <= named


def test_where_results_are_compared_somebody_vouches_for_the_poller() -> None:
    for phase in RUNBOOK.phases:
        signed = {each.id for each in phase.signoffs}
        assert ("poller-decides" in signed) is ("agreement" in ids(RUNBOOK, phase.name))


def test_cleanup_evaluates_all_that_cutover_evaluates() -> None:
    assert set(ids(RUNBOOK, "cleanup")) == set(ids(RUNBOOK, "cutover"))


def test_an_empty_database_opens_no_gate(migrations: Migrations) -> None:
    migrations.upgrade("head")
    closed = {check for check in checks_of(RUNBOOK) if not check.endswith("/idempotency-index")}
    assert set(not_passed(verdicts(migrations.database, RUNBOOK))) == closed


@pytest.mark.parametrize(
    ("phase", "statement"),
    [
        ("dual-write", observe("sqs_dlq_depth", 10)),
        ("shadow", observe("sqs_queue_depth", 100)),
        ("shadow", observe("sqs_oldest_message_seconds", 600)),
        ("shadow", "UPDATE job_results SET updated_at = <55 minutes ago> WHERE job_id = 5"),
        ("shadow", add_job(21, 3)),
        ("dual-write", add_job(21, 9, "completed")),
        ("shadow", add_job(21, 25 * 60)),
        ("cutover", observe("sqs_queue_depth", 5000, 49 * 60)),
        ("cutover", "DELETE FROM pipestate.observation WHERE observed_at < <2950 minutes ago>"),
        ("cutover", observe("app_metric", 9999)),
    ],
)
def test_what_is_within_bounds_passes(healthy: Database, phase: str, statement: str) -> None:
    run_timed(healthy, statement)
    assert not_passed(verdicts(healthy, RUNBOOK, phase)) == {}


def test_the_newest_observation_counts(healthy: Database) -> None:
    run_timed(healthy, observe("sqs_dlq_depth", 50, 2), observe("sqs_dlq_depth", 0, 1))
    assert not_passed(verdicts(healthy, RUNBOOK, "shadow")) == {}


def test_the_views_show_days_and_errors(healthy: Database) -> None:
    found = views(healthy, RUNBOOK)
    assert sum(int(str(row[1])) for row in found["queue-results-by-day"]) == 255
    assert [row[:3] for row in found["queue-error-patterns"]] == [("(none)", 1, 1)]


def test_an_adopted_table_is_not_ready_while_its_keys_are_random(postgres: Postgres) -> None:
    database = postgres.create()
    Migrations(database).upgrade("0004")
    database.run(
        "CREATE TABLE job_results (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id bigint NOT NULL, "
        "directory_name text NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())"
    )
    Migrations(database).upgrade("0005")
    delivery = "INSERT INTO job_results (job_id, directory_name, status) VALUES (1, 'dir0', 'submitted')"
    database.run("INSERT INTO jobs (id) OVERRIDING SYSTEM VALUE VALUES (1)", delivery, delivery)
    answer = verdict(database, RUNBOOK, "dual-write/idempotency-index")
    assert [row[0] for row in rows_of(answer)] == ["the key has a default"]
    database.run("ALTER TABLE job_results ALTER COLUMN idempotency_key DROP DEFAULT")
    assert rows_of(verdict(database, RUNBOOK, "dual-write/idempotency-index")) == []
    postgres.drop(database)


def test_a_job_that_never_reached_the_queue_is_distinguished_from_one_without_results(
    healthy: Database,
) -> None:
    run_timed(
        healthy,
        add_job(21, 70),
        add_job(22, 60),
        "INSERT INTO queue_history (job_id, event) VALUES (22, 'received')",
    )
    evidence = rows_of(verdict(healthy, RUNBOOK, "dual-write/processed"))
    assert [row[:2] for row in evidence] == [
        ("not in queue_history", 21),
        ("taken from the queue, no results", 22),
    ]


def test_silent_and_missing_probes_come_first_in_the_evidence(healthy: Database) -> None:
    run_timed(
        healthy,
        "DELETE FROM pipestate.observation WHERE name = 'sqs_dlq_depth'",
        "DELETE FROM pipestate.observation WHERE name = 'sqs_queue_depth' AND observed_at > <90 minutes ago>",
        observe("prefect_failed_runs", 1),
    )
    evidence = rows_of(verdict(healthy, RUNBOOK, "cutover/stable-hours"))
    assert {row[:2] for row in evidence[:2]} == {
        ("never observed", "sqs_dlq_depth"),
        ("silent since then", "sqs_queue_depth"),
    }
    assert evidence[2][:2] == ("out of bounds", "prefect_failed_runs")


def test_the_evidence_names_the_job_of_which_nothing_succeeded(healthy: Database) -> None:
    run_timed(healthy, "UPDATE job_results SET status = 'failed', error_message = 'gone' WHERE job_id = 5")
    evidence = rows_of(verdict(healthy, RUNBOOK, "cutover/success-rate"))
    assert evidence[0] == ("nothing succeeded", 5, 0, 3, "gone")


def test_a_worker_that_is_alive_is_no_evidence(healthy: Database) -> None:
    run_timed(
        healthy,
        "INSERT INTO worker_heartbeats (worker_id, queue_name, status, last_heartbeat) "
        "VALUES ('w2', 'jobs', 'paused', <3 minutes ago>)",
    )
    evidence = rows_of(verdict(healthy, RUNBOOK, "cutover/stale-workers"))
    assert [row[:2] for row in evidence] == [("silent", "w2")]


@pytest.mark.parametrize(
    ("check", "name"),
    [("prefect-errors", "prefect_failed_runs"), ("dead-letters", "sqs_dlq_depth")],
)
def test_the_evidence_begins_with_the_observation_that_counts(
    healthy: Database, check: str, name: str
) -> None:
    run_timed(healthy, observe(name, 70, 1), observe(name, 5, 20))
    assert rows_of(verdict(healthy, RUNBOOK, f"dual-write/{check}"))[0][0] == 70
