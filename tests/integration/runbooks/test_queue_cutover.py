"""What queue-cutover promises besides its cases: ids, bounds, an empty database, views."""

from collections.abc import Iterator

import pytest

from alembics import Chain
from bed import Database, Postgres, Sqlite
from integration.runbooks.queue_cutover_cases import PAGE, add_job, observe
from moments import run_timed
from verdicts import checks_of, not_passed, verdicts, views

RUNBOOK = PAGE.runbook


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    with PAGE.copy(bed, "cutover") as database:
        yield database


def test_the_ids_are_those_that_scripts_rely_on() -> None:
    signed = {signoff.id for phase in RUNBOOK.phases for signoff in phase.signoffs}
    assert signed == {"acceptance-passed", "no-complaints"}
    assert {check.partition("/")[2] for check in checks_of(RUNBOOK)} == {
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
    closed = {check for check in checks_of(RUNBOOK) if not check.endswith("/idempotency-index")}
    assert set(not_passed(verdicts(chain.database, RUNBOOK))) == closed


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
