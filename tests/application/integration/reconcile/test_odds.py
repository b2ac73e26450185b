"""Reconciliation against the odds: other settings of the server, late jobs, odd files."""

import os
from dataclasses import replace

import pytest

from pipestate.pipeline import finish_job, initialize_stage
from pipestate.pipeline.queues.port import Destination
from support.stuck_sites import Pipeline, reported


def test_the_time_zone_of_the_server_does_not_matter(pg_pipeline: Pipeline) -> None:
    name = pg_pipeline.database.url.database
    pg_pipeline.database.run(f"ALTER DATABASE {name} SET TimeZone = 'America/New_York'")
    pg_pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    assert reported(pg_pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]


def test_stages_side_by_side_share_their_attempts(pipeline: Pipeline) -> None:
    """The job that fails claims for its own stage, the reconciler for the one that the site is in."""
    pipeline.put("a.gov", "extraction", extraction_total=1, extraction_completed=1, compilation_total=1)
    actions = []
    for _ in range(8):
        actions += [outcome.subject.action for outcome in pipeline.reconcile(max_attempts=5)]
        with pipeline.database.begin() as conn:
            finish_job(conn, "a.gov", "compilation", error="disk full", job_key="only")
        pipeline.jobs.lose_all()
        pipeline.age()
    assert actions[-1] == "person"


def test_a_try_counts_once(pipeline: Pipeline) -> None:
    """Jobs that fail claim the coordinator, which counts: sending them again is not one more."""
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "deploy", 1)
    for attempt in range(1, 5):
        with pipeline.database.begin() as conn:
            assert finish_job(conn, "a.gov", "deploy", error="no host", job_key="only").claimed
        assert pipeline.database.value("SELECT attempts FROM pipeline_claim") == attempt
        pipeline.age()
        pipeline.jobs.lose_all()  # the coordinator gives up, too
        (done,) = pipeline.reconcile(max_attempts=4)
        assert done.subject.action == ("jobs" if attempt < 4 else "person")
    assert done.reason == "tried 4 times: a person must repair it; its last error: no host"


@pytest.mark.parametrize("key", ["Council/{:02}", "{root}/a.gov/pdfs/Council/{:02}.pdf"])
@pytest.mark.parametrize("texts", [3, 4])
def test_a_late_job_whose_text_was_found_is_not_counted_again(
    pipeline: Pipeline, key: str, texts: int
) -> None:
    keys = [key.format(number, root=pipeline.root) for number in range(4)]
    pipeline.files("a.gov", pdfs=4, texts=texts)
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "ocr", 4)
        finish_job(conn, "a.gov", "ocr", job_key=keys[0])
    pipeline.age()
    assert pipeline.reconcile()[0].outcome == "recovered"
    with pipeline.database.begin() as conn:
        late = {finish_job(conn, "a.gov", "ocr", job_key=keys[number]) for number in range(texts)}
    assert late == {(texts, 0, 4, False)}


def test_a_file_name_that_is_no_text_stops_nobody(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=2, texts=1)
    for kind, name in (("pdfs", b"caf\xe9.pdf"), ("txt", b"caf\xe9.txt")):
        (pipeline.root / "a.gov" / kind / "Council" / os.fsdecode(name)).write_text("x")
    pipeline.put("a.gov", "ocr", ocr_total=3, ocr_completed=1)
    assert reported(pipeline.reconcile()) == [("a.gov", "recovered", "jobs")]
    assert pipeline.site("a.gov", "ocr_total", "ocr_completed") == (3, 2)


def test_stages_side_by_side_may_name_a_coordinator_each(pipeline: Pipeline) -> None:
    """The job that ended the step has sent the one of its own stage, whichever the site is in."""
    coordinators = {
        **pipeline.config.coordinators,
        "compilation": Destination("ocr", "clerk.workers.compiled"),
    }
    both = replace(pipeline.config, coordinators=coordinators)
    pipeline.put("a.gov", "extraction", extraction_total=1, extraction_completed=1)
    pipeline.jobs.put("queued", "compiled")
    assert reported(pipeline.reconcile(config=both)) == [("a.gov", "skipped", "wait")]
