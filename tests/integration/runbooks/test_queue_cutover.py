"""Every check of queue-cutover: passes on a healthy database, fails on one that is broken."""

from collections.abc import Iterator

import pytest

from alembics import Chain
from bed import Database, Postgres, Sqlite
from integration.runbooks.evaluate import answers, ids, not_passed, views
from integration.runbooks.queue_cutover_cases import CASES, Broken, add_job, fill, observe, run
from outcomes import shipped

RUNBOOK = shipped("queue-cutover")


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("queue-cutover", fill)
    run(database, "UPDATE worker_heartbeats SET last_heartbeat = ago(0)")
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
        pytest.param(engine, case, id=f"{engine}-{case.phase}-{case.check}: {case.how}")
        for case in CASES
        for engine in case.engines
    ],
    indirect=["bed"],
)
def test_a_broken_database_fails_that_check_and_shows_why(healthy: Database, case: Broken) -> None:
    run(healthy, *case.statements)
    found = answers(healthy, RUNBOOK, case.phase)
    assert set(not_passed(found)) == {case.check} | case.also
    assert found[case.check].failed, found[case.check].message
    assert bool(found[case.check].evidence) is not case.nothing_to_show


def test_every_check_is_broken_in_every_phase() -> None:
    checks = {(phase.name, id) for phase in RUNBOOK.phases for id in ids(RUNBOOK, phase.name)}
    assert {(case.phase, case.check) for case in CASES} == checks


def test_the_ids_are_those_that_scripts_rely_on() -> None:
    signed = {signoff.id for phase in RUNBOOK.phases for signoff in phase.signoffs}
    assert signed == {"acceptance-passed", "no-complaints"}
    assert {id for phase in RUNBOOK.phases for id in ids(RUNBOOK, phase.name)} == {
        "agreement",
        "processed",
        "success-rate",
        "p95-latency",
        "jobs-without-results",
        "idempotency-index",
        "stale-workers",
        "dead-letters",
        "queue-depth",
        "oldest-message",
        "prefect-errors",
        "stable-hours",
    }


def test_the_acceptance_test_is_asked_in_every_phase() -> None:
    assert all("acceptance-passed" in {each.id for each in phase.signoffs} for phase in RUNBOOK.phases)


def test_an_empty_database_opens_no_gate(chain: Chain) -> None:
    chain.upgrade("head")
    for phase in RUNBOOK.phases:
        assert set(not_passed(answers(chain.database, RUNBOOK, phase.name))) == set(
            ids(RUNBOOK, phase.name)
        ) - {"idempotency-index"}


@pytest.mark.parametrize(
    ("phase", "statement"),
    [
        ("dual-write", observe("sqs_dlq_depth", 10)),
        ("shadow", observe("sqs_queue_depth", 100)),
        ("shadow", observe("sqs_oldest_message_seconds", 600)),
        ("shadow", "UPDATE job_results SET updated_at = ago(55) WHERE job_id = 5"),
        ("shadow", add_job(21, 3)),
        ("dual-write", add_job(21, 9, "completed")),
        ("shadow", add_job(21, 25 * 60)),
        ("cutover", observe("sqs_queue_depth", 5000, 49 * 60)),
        ("cutover", "DELETE FROM pipestate.observation WHERE observed_at < ago(2950)"),
        ("cutover", observe("app_metric", 9999)),
    ],
)
def test_what_is_within_bounds_passes(healthy: Database, phase: str, statement: str) -> None:
    run(healthy, statement)
    assert not_passed(answers(healthy, RUNBOOK, phase)) == {}


def test_the_newest_observation_counts(healthy: Database) -> None:
    run(healthy, observe("sqs_dlq_depth", 50, 2), observe("sqs_dlq_depth", 0, 1))
    assert not_passed(answers(healthy, RUNBOOK, "shadow")) == {}


def test_the_views_show_days_and_errors(healthy: Database) -> None:
    found = views(healthy, RUNBOOK)
    assert sum(int(str(row[1])) for row in found["queue-results-by-day"]) == 255
    assert [row[:3] for row in found["queue-error-patterns"]] == [("(none)", 1, 1)]
