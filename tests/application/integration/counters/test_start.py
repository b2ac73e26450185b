"""Starting stages and moving on, on both engines, up to completed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection

from pipestate.pipeline import (
    StageRunning,
    WrongTransition,
    advance_stage,
    claim_coordinator_enqueue,
    finish_job,
    initialize_stage,
    should_trigger_coordinator,
)
from support.servers import Database
from support.sites import SITE, claims, everything, site, wait_for_locks


def test_a_running_stage_is_not_reset_without_restart(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 3)
    finish_job(conn, SITE, "ocr", job_key="k")
    before = everything(conn)
    with pytest.raises(StageRunning) as caught:
        initialize_stage(conn, SITE, "ocr", 5)
    assert (caught.value.completed, caught.value.failed, caught.value.total) == (1, 0, 3)
    assert everything(conn) == before
    initialize_stage(conn, SITE, "ocr", 2, restart=True)
    assert finish_job(conn, SITE, "ocr", job_key="k") == (1, 0, 2, False)


def test_a_stage_whose_coordinator_is_claimed_is_not_reset_either(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    assert finish_job(conn, SITE, "ocr").claimed
    with pytest.raises(StageRunning):
        initialize_stage(conn, SITE, "ocr", 1)


def test_a_stage_without_jobs_claims_at_once(conn: Connection) -> None:
    assert initialize_stage(conn, SITE, "ocr", 0) is True
    assert claims(conn) == [(SITE, "ocr", 1)]
    assert not claim_coordinator_enqueue(conn, SITE)
    assert advance_stage(conn, SITE, to="extraction", totals={"compilation": 0, "extraction": 0}) is True
    assert claims(conn) == [(SITE, "extraction", 1)]
    assert advance_stage(conn, SITE, to="deploy", totals={"deploy": 1}) is False
    assert claims(conn) == []


def test_every_stage_moves_through_the_same_transition_up_to_completed(conn: Connection) -> None:
    initialize_stage(conn, SITE, "fetch", 1)
    assert finish_job(conn, SITE, "fetch").claimed
    advance_stage(conn, SITE, to="ocr", totals={"ocr": 2})
    assert not finish_job(conn, SITE, "ocr").claimed
    assert finish_job(conn, SITE, "ocr").claimed
    advance_stage(conn, SITE, to="extraction", totals={"compilation": 1, "extraction": 1})
    assert site(conn, "current_stage", "compilation_total", "extraction_total") == ("extraction", 1, 1)
    assert not finish_job(conn, SITE, "compilation").claimed
    assert not should_trigger_coordinator(conn, SITE, "compilation")
    assert finish_job(conn, SITE, "extraction", error="no entities").claimed
    advance_stage(conn, SITE, to="deploy", totals={"deploy": 1})
    assert finish_job(conn, SITE, "deploy").claimed
    advance_stage(conn, SITE, to="completed", totals={})
    assert site(conn, "current_stage", "coordinator_enqueued", "ocr_completed") == ("completed", False, 2)
    assert claims(conn) == []


def test_a_second_round_starts_from_zero(conn: Connection) -> None:
    for _ in range(2):
        initialize_stage(conn, SITE, "fetch", 1)
        assert finish_job(conn, SITE, "fetch", job_key="f").claimed
        advance_stage(conn, SITE, to="ocr", totals={"ocr": 1})
        assert finish_job(conn, SITE, "ocr", job_key="o", error="broken") == (0, 1, 1, True)
        advance_stage(conn, SITE, to="compilation", totals={"compilation": 1, "extraction": 3})
        advance_stage(conn, SITE, to="completed", totals={})
    initialize_stage(conn, SITE, "compilation", 1)
    assert site(conn, "extraction_total") == (0,), "what was abandoned must not hold up this round"
    assert finish_job(conn, SITE, "compilation").claimed


def test_a_coordinator_that_runs_twice_moves_the_site_once(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    finish_job(conn, SITE, "ocr")
    advance_stage(conn, SITE, to="extraction", totals={"compilation": 1, "extraction": 1})
    finish_job(conn, SITE, "compilation")
    before = everything(conn)
    with pytest.raises(StageRunning):
        advance_stage(conn, SITE, to="extraction", totals={"compilation": 1, "extraction": 1})
    with pytest.raises(WrongTransition) as caught:
        advance_stage(conn, SITE, to="ocr", totals={"ocr": 1})
    assert (caught.value.current, caught.value.to) == ("extraction", "ocr")
    assert everything(conn) == before
    advance_stage(conn, SITE, to="completed")
    with pytest.raises(WrongTransition, match="is at completed"):
        advance_stage(conn, SITE, to="completed")


def test_a_stage_without_jobs_is_not_claimed_again_by_a_coordinator_that_runs_twice(conn: Connection) -> None:
    initialize_stage(conn, SITE, "extraction", 0)
    assert advance_stage(conn, SITE, to="deploy", totals={"deploy": 0})
    with pytest.raises(StageRunning):
        advance_stage(conn, SITE, to="deploy", totals={"deploy": 0})


def test_compilation_and_extraction_may_also_follow_each_other(conn: Connection) -> None:
    initialize_stage(conn, SITE, "compilation", 1)
    assert finish_job(conn, SITE, "compilation").claimed
    advance_stage(conn, SITE, to="extraction", totals={"extraction": 1})
    assert site(conn, "compilation_completed", "compilation_total") == (1, 1)
    assert finish_job(conn, SITE, "extraction").claimed


def test_times_are_kept_true(sites: Database) -> None:
    def times() -> tuple[object, ...]:
        with sites.begin() as conn:
            return site(conn, "started_at", "updated_at")

    with sites.begin() as conn:
        initialize_stage(conn, SITE, "fetch", 1)
    first = times()
    assert None not in first
    threading.Event().wait(0.005)
    with sites.begin() as conn:
        finish_job(conn, SITE, "fetch", job_key="k")
    second = times()
    assert second[0] == first[0]
    assert str(second[1]) > str(first[1])
    with sites.begin() as conn:
        finish_job(conn, SITE, "fetch", job_key="k")
    assert times() == second, "a redelivered job is no sign of life"
    threading.Event().wait(0.005)
    with sites.begin() as conn:
        advance_stage(conn, SITE, to="ocr", totals={"ocr": 1})
    assert str(times()[0]) > str(second[0])


def test_of_two_that_start_a_stage_one_is_reported(pg_sites: Database) -> None:
    first = pg_sites.engine.connect()
    initialize_stage(first, SITE, "ocr", 1)

    def second() -> None:
        with pg_sites.begin() as conn:
            initialize_stage(conn, SITE, "ocr", 9)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(second)
        wait_for_locks(pg_sites, 1)
        first.commit()
        with pytest.raises(StageRunning):
            job.result(20)
    first.close()
