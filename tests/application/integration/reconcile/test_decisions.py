"""What reconciliation decides and writes, on both engines and over both implementations of the queue port."""

import pytest

from pipestate.pipeline import finish_job, initialize_stage
from pipestate.runbook.lint import load
from pipestate.runbook.model import SignOff
from support.alembic_runs import ROOT
from support.servers import Database
from support.stuck_sites import Pipeline, reported

STAGE_JOBS = [
    ("fetch", "fetch", "fetch_site_job"),
    ("compilation", "compilation", "compile_db_job"),
    ("extraction", "extraction", "extract_entities_job"),
    ("deploy", "deploy", "deploy_job"),
]
COORDINATORS = [
    ("fetch", "fetch", "fetch_complete_coordinator"),
    ("ocr", "compilation", "ocr_complete_coordinator"),
    ("compilation", "extraction", "extraction_complete_coordinator"),
    ("extraction", "extraction", "extraction_complete_coordinator"),
    ("deploy", "deploy", "deploy_complete_coordinator"),
]


def kwargs(subdomain: str = "a.gov", **more: str) -> dict[str, str]:
    return {"subdomain": subdomain, "run_id": f"{subdomain}_recovered", **more}


@pytest.mark.parametrize(("stage", "queue", "function"), COORDINATORS)
def test_a_stage_that_has_ended_gets_its_coordinator(
    pipeline: Pipeline, stage: str, queue: str, function: str
) -> None:
    pipeline.put("a.gov", stage, **{f"{stage}_total": 15, f"{stage}_completed": 12, f"{stage}_failed": 3})
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]
    assert pipeline.queued() == [(queue, function, kwargs())]
    assert pipeline.site("a.gov", "coordinator_enqueued", f"{stage}_total", f"{stage}_failed") == (1, 15, 3)
    assert pipeline.reconcile() == []  # straight after, nothing is stuck


@pytest.mark.parametrize(("stage", "queue", "function"), STAGE_JOBS)
@pytest.mark.parametrize("failed", [0, 1])
def test_a_stage_of_one_job_gets_it_again(
    pipeline: Pipeline, stage: str, queue: str, function: str, failed: int
) -> None:
    pipeline.put("a.gov", stage, **{f"{stage}_total": 1, f"{stage}_failed": failed})
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "jobs")]
    assert pipeline.queued() == [(queue, function, kwargs())]
    assert pipeline.site("a.gov", f"{stage}_total", f"{stage}_completed", f"{stage}_failed") == (1, 0, 0)


def test_a_crash_between_claim_and_enqueue_is_fixed(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "ocr", 1)
        assert finish_job(conn, "a.gov", "ocr").claimed
    assert pipeline.reconcile() == []  # a fresh claim is left alone
    pipeline.age()
    (done,) = pipeline.reconcile()
    assert done.outcome == "recovered"
    assert "its coordinator was lost" in str(done.reason)
    assert pipeline.queued() == [("compilation", "ocr_complete_coordinator", kwargs())]
    assert pipeline.database.rows("SELECT subdomain, stage, attempts FROM pipeline_claim") == [
        ("a.gov", "ocr", 2)
    ]


def test_jobs_that_were_killed_are_sent_again_from_the_files(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=15, texts=12)
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "ocr", 15)
        for number in range(10):  # two more have written their text, and died before they counted
            finish_job(conn, "a.gov", "ocr", job_key=f"Council/{number:02}")
        finish_job(conn, "a.gov", "ocr", job_key="Council/14", error="no pages")
    pipeline.age()
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "jobs")]
    paths = [str(pipeline.root / "a.gov/pdfs/Council" / f"{number}.pdf") for number in (12, 13, 14)]
    assert pipeline.queued() == [("ocr", "ocr_page_job", kwargs(pdf_path=path)) for path in paths]
    assert pipeline.site("a.gov", "ocr_total", "ocr_completed", "ocr_failed") == (15, 12, 0)
    with pipeline.database.begin() as conn:
        again = [
            finish_job(conn, "a.gov", "ocr", job_key=f"Council/{number:02}") for number in (3, 12, 13, 13, 14)
        ]
    assert [outcome.claimed for outcome in again] == [False, False, False, False, True]
    assert again[-1] == (15, 0, 15, True)


def test_texts_that_nobody_counted_end_the_stage(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=15, texts=15)
    pipeline.put("a.gov", "ocr", ocr_total=15, ocr_completed=10)
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]
    assert pipeline.site("a.gov", "ocr_total", "ocr_completed", "ocr_failed") == (15, 15, 0)


def test_what_always_fails_is_tried_a_few_times_and_then_shown_to_a_person(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=2, texts=0)
    pipeline.put("a.gov", "ocr", ocr_total=2, ocr_failed=2, last_error_message="PDF corrupted")
    for _ in range(3):
        assert reported(pipeline.reconcile(max_attempts=3)) == [("a.gov", "recovered", "jobs")]
        pipeline.jobs.lose_all()  # the workers lose them
        pipeline.age()
    before = pipeline.site("a.gov", "updated_at", "ocr_total")
    (done,) = pipeline.reconcile(max_attempts=3)
    assert (done.outcome, done.subject.action) == ("skipped", "person")
    assert done.reason == "tried 3 times: a person must repair it; its last error: PDF corrupted"
    assert pipeline.queued() == []
    assert pipeline.site("a.gov", "updated_at", "ocr_total") == before
    # The person decides, and tries again: the count starts anew.
    assert reported(pipeline.reconcile(max_attempts=3, site="a.gov")) == [("a.gov", "recovered", "jobs")]
    assert pipeline.database.value("SELECT attempts FROM pipeline_claim") == 1
    assert (
        pipeline.database.rows("SELECT triggered_by FROM pipeline_reconciliation ORDER BY id")
        == [("manual",)] * 5
    )


def test_a_site_whose_documents_are_gone_is_shown_to_a_person(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=15, ocr_failed=15)
    (done,) = pipeline.reconcile()
    assert (done.outcome, done.reason) == ("skipped", "none of its 15 documents is in the storage")


def test_half_a_disk_does_not_lower_the_total_unless_a_person_says_so(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=5, texts=5)
    pipeline.put("a.gov", "ocr", ocr_total=15, ocr_completed=5)
    (done,) = pipeline.reconcile()
    assert (done.outcome, done.subject.action) == ("skipped", "person")
    assert str(done.reason).startswith("only 5 of its 15 documents are in the storage")
    assert reported(pipeline.reconcile(site="a.gov")) == [("a.gov", "recovered", "coordinator")]
    assert pipeline.site("a.gov", "ocr_total", "ocr_completed") == (5, 5)


@pytest.mark.parametrize("where", ["queued", "scheduled", "running"])
@pytest.mark.parametrize(
    ("function", "reason"),
    [("ocr_page_job", "1 ocr job queued or running"), ("ocr_complete_coordinator", "its coordinator is")],
)
def test_what_is_alive_is_left_alone(pipeline: Pipeline, where: str, function: str, reason: str) -> None:
    pipeline.files("a.gov", pdfs=15, texts=12)
    pipeline.put("a.gov", "ocr", ocr_total=15, ocr_completed=12)
    pipeline.jobs.put(where, function)
    (done,) = pipeline.reconcile()
    assert (done.outcome, done.subject.action) == ("skipped", "wait")
    assert reason in str(done.reason)


@pytest.mark.parametrize("where", ["deferred", "abandoned", "failed"])
def test_what_is_dead_is_replaced(pipeline: Pipeline, where: str) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=15, ocr_completed=15, coordinator_enqueued=True)
    pipeline.jobs.put(where, "ocr_complete_coordinator")
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]


def test_stuck_is_what_the_runbook_calls_stuck(pipeline: Pipeline) -> None:
    pipeline.put("fresh.gov", "ocr", hours=1.9, ocr_total=1, ocr_completed=1)
    pipeline.put("old.gov", "deploy", hours=2.1, deploy_total=1, deploy_completed=1)
    pipeline.put("unknown.gov", "fetch", hours=None, fetch_total=1, fetch_completed=1)
    pipeline.put("done.gov", "completed", hours=99)
    pipeline.put("outside.gov", None, hours=99)
    shown = [row[0] for row in pipeline.database.rows(_sql(pipeline.database, "stuck"))]
    planned = [result.subject.site.subdomain for result in pipeline.plan().expected]
    assert planned == shown == ["unknown.gov", "old.gov"]
    assert pipeline.database.rows(_sql(pipeline.database, "stuck-sites"))[0][0] == 2


def _sql(database: Database, name: str) -> str:
    """A view or a check of the runbook, as it stands there."""
    dialect = "sqlite" if database.is_sqlite else "postgresql"
    phases = load(ROOT / "runbooks" / "sites-consolidation.md").phases
    blocks = [block for phase in phases for block in (*phase.views_for(dialect), *phase.checks_for(dialect))]
    return next(block.sql for block in blocks if block.id == name and not isinstance(block, SignOff))
