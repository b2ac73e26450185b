"""A run of the reconciliation: exactly the plan, each site by itself, nothing half written."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.pipeline import UnknownSite
from pipestate.pipeline.planning import Trigger
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.reconcile import apply, reconcile_lock, run
from pipestate.pipeline.schema import sites as sites_table
from support.alembic_runs import Migrations
from support.queues import QueueBed
from support.servers import Database
from support.stuck_sites import Pipeline, reported


def test_a_site_that_moves_between_plan_and_apply_is_left_alone(pipeline: Pipeline) -> None:
    for name in ("moved.gov", "gone.gov", "still.gov"):
        pipeline.put(name, "ocr", ocr_total=1, ocr_completed=1)
    plan = pipeline.plan()
    pipeline.database.run(
        f"UPDATE sites SET updated_at = {pipeline.ago(0)} WHERE subdomain = 'moved.gov'",
        "DELETE FROM sites WHERE subdomain = 'gone.gov'",
    )
    done = apply(pipeline.database.url, pipeline.jobs.queues, plan)
    results = {result.subject.site.subdomain: (result.outcome, result.reason) for result in done}
    assert results["moved.gov"] == results["gone.gov"] == ("skipped", "the site advanced meanwhile")
    assert results["still.gov"][0] == "recovered"
    assert [call[2]["subdomain"] for call in pipeline.queued()] == ["still.gov"]
    assert pipeline.site("moved.gov", "coordinator_enqueued") == (0,)


def test_a_dry_run_writes_nothing_anywhere(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    pipeline.jobs.put("abandoned", "ocr_page_job")  # RQ's own query would clean that up
    before = pipeline.everything()
    assert reported(list(pipeline.plan().expected)) == [("a.gov", "recovered", "coordinator")]
    assert pipeline.everything() == before


def test_a_queue_that_refuses_leaves_nothing_half_written(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    plan = pipeline.plan()
    before = pipeline.site("a.gov", "coordinator_enqueued", "updated_at")
    with pytest.raises(Unreachable, match="does not answer"), pipeline.jobs.unreachable() as lost:
        apply(pipeline.database.url, lost, plan)
    assert pipeline.site("a.gov", "coordinator_enqueued", "updated_at") == before
    assert pipeline.database.rows("SELECT * FROM pipeline_claim") == []
    ((finished, details),) = pipeline.database.rows(
        "SELECT finished_at, details FROM pipeline_reconciliation"
    )
    assert finished is None
    assert "refused" in str(details) or "readonly" in str(details)
    assert pipeline.queued() == []
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]


def test_one_at_a_time(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    with reconcile_lock(pipeline.database.engine) as free:
        assert free
        assert run(pipeline.database.url, pipeline.jobs.queues, pipeline.rules()) is None
    assert pipeline.queued() == []
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]


def test_each_run_is_in_the_ledger(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    pipeline.put("b.gov", "ocr", ocr_total=3)
    assert run(pipeline.database.url, pipeline.jobs.queues, pipeline.rules(), trigger=Trigger.CRON)
    pipeline.reconcile()
    rows = pipeline.database.rows(
        "SELECT triggered_by, found, recovered, skipped, failed, finished_at IS NOT NULL "
        "FROM pipeline_reconciliation ORDER BY id"
    )
    assert rows == [("cron", 2, 1, 1, 0, 1), ("manual", 1, 0, 1, 0, 1)]
    details = str(pipeline.database.rows("SELECT details FROM pipeline_reconciliation ORDER BY id")[0])
    assert "none of its 3 documents" in details


def test_an_unknown_site_and_one_that_is_not_stuck(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", hours=0, ocr_total=1)
    with pytest.raises(UnknownSite, match=r"there is no site 'nowhere\.gov'"):
        pipeline.reconcile(site="nowhere.gov")
    assert pipeline.reconcile(site="a.gov") == []
    assert pipeline.database.rows("SELECT * FROM pipeline_reconciliation") == [], "nobody intervened"


def test_many_jobs_of_unknown_arguments_need_the_applications_answer(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.put("a.gov", "extraction", extraction_total=7, extraction_completed=4, extraction_failed=1)
    (done,) = pipeline.reconcile()
    assert (done.outcome, done.subject.action) == ("skipped", "person")
    assert "extraction has 7 jobs, and the missing ones are unknown" in str(done.reason)
    name = f"missing_{abs(hash(str(pipeline.root)))}"
    hooked = replace(pipeline.config, missing=f"{name}.missing")
    with pytest.raises(ConfigError, match="which cannot be imported"):
        pipeline.reconcile(config=hooked)
    module = pipeline.root / f"{name}.py"
    module.write_text("def missing(subdomain, stage):\n    return [{'year': 2024}, {'year': 2025}]\n")
    monkeypatch.syspath_prepend(str(pipeline.root))
    assert reported(pipeline.reconcile(config=hooked)) == [("a.gov", "recovered", "jobs")]
    assert [call[2]["year"] for call in pipeline.queued()] == [2024, 2025]
    assert pipeline.site("a.gov", "extraction_total", "extraction_completed", "extraction_failed") == (
        7,
        5,  # one more than was counted: the hook does not miss it
        0,
    )


def test_a_function_without_its_module_cannot_be_sent(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    (done,) = pipeline.reconcile(config=QueueConfig())
    assert (done.outcome, done.subject.action) == ("skipped", "person")
    assert "write ocr_coordinator under [pipestate:queues]" in str(done.reason)


def test_ocr_without_a_storage_directory_is_refused_before_anything_is_written(pipeline: Pipeline) -> None:
    pipeline.put("a.gov", "ocr", ocr_total=3)
    pipeline.put("b.gov", "ocr", ocr_total=1, ocr_completed=1)
    before = pipeline.everything()
    with pytest.raises(ConfigError, match="give --storage-dir or set STORAGE_DIR"):
        pipeline.reconcile(storage=None)
    assert pipeline.everything() == before


def test_a_database_without_counters_names_what_to_run(
    database: Database, jobs: QueueBed, tmp_path: Path
) -> None:
    Migrations(database).upgrade("0002")
    with pytest.raises(ConfigError, match="run alembic upgrade 0005 first"):
        Pipeline(database, tmp_path, jobs).reconcile()


def test_a_site_that_somebody_holds_is_reported_and_the_others_go_on(pg_pipeline: Pipeline) -> None:
    for name in ("a.gov", "b.gov"):
        pg_pipeline.put(name, "ocr", ocr_total=1, ocr_completed=1)
    with pg_pipeline.database.begin() as holder:
        holder.execute(update(sites_table).where(sites_table.c.subdomain == "a.gov").values(name="held"))
        done = {result.subject.site.subdomain: result for result in pg_pipeline.reconcile()}
    assert done["a.gov"].outcome == "failed"
    assert "lock timeout" in str(done["a.gov"].reason)
    assert done["b.gov"].outcome == "recovered"
