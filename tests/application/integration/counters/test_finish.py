"""Counters and the coordinator's claim, on both engines: what the source documents got wrong, by name."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import InternalError, OperationalError

from pipestate.pipeline import (
    STAGES,
    InvalidJobs,
    JobOutcome,
    StageNotStarted,
    UnknownSite,
    UnknownStage,
    advance_stage,
    claim_coordinator_enqueue,
    finish_job,
    increment_completed,
    increment_failed,
    initialize_stage,
    should_trigger_coordinator,
)
from support.servers import Database
from support.sites import SITE, claims, everything, site, wait_for_locks


def test_the_last_job_claims_and_no_other(conn: Connection) -> None:
    assert initialize_stage(conn, SITE, "ocr", 3) is False
    outcomes = [
        finish_job(conn, SITE, "ocr"),
        finish_job(conn, SITE, "ocr", error=ValueError("no pages")),
        finish_job(conn, SITE, "ocr"),
    ]
    assert outcomes == [(1, 0, 3, False), (1, 1, 3, False), (2, 1, 3, True)]
    assert claims(conn) == [(SITE, "ocr", 1)]
    assert site(conn, "last_error_stage", "last_error_message") == ("ocr", "ValueError: no pages")


def test_other_sites_are_left_alone(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    finish_job(conn, SITE, "ocr", job_key="k")
    other = conn.exec_driver_sql("SELECT current_stage, ocr_completed FROM sites WHERE subdomain = 'b.gov'")
    assert tuple(other.one()) == (None, 0)


def test_a_job_before_its_stage_is_an_error_and_not_a_lost_count(conn: Connection) -> None:
    before = everything(conn)
    for finish in (
        lambda: finish_job(conn, SITE, "ocr"),
        lambda: finish_job(conn, SITE, "ocr", job_key="k", error="x"),
        lambda: increment_completed(conn, SITE, "ocr"),
        lambda: increment_failed(conn, SITE, "ocr", "m", "E"),
    ):
        with pytest.raises(StageNotStarted, match=r"initialize_stage or advance_stage before"):
            finish()
    assert everything(conn) == before


def test_two_last_jobs_make_one_claim_even_after_the_first_coordinator_moved_on(conn: Connection) -> None:
    """Should-trigger, then claim, in two workers: the second is late, the flag is down again."""
    initialize_stage(conn, SITE, "ocr", 2)
    increment_completed(conn, SITE, "ocr")
    increment_completed(conn, SITE, "ocr")
    assert should_trigger_coordinator(conn, SITE, "ocr")
    assert claim_coordinator_enqueue(conn, SITE)
    assert not claim_coordinator_enqueue(conn, SITE)
    advance_stage(conn, SITE, to="extraction", totals={"compilation": 1, "extraction": 1})
    assert not claim_coordinator_enqueue(conn, SITE)
    assert not should_trigger_coordinator(conn, SITE, "ocr")


def test_an_overshoot_still_has_its_one_claim(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 2)
    for _ in range(3):
        increment_completed(conn, SITE, "ocr")
    assert should_trigger_coordinator(conn, SITE, "ocr")
    assert finish_job(conn, SITE, "ocr") == (4, 0, 2, True)
    assert finish_job(conn, SITE, "ocr", error="late") == (4, 1, 2, False)
    assert finish_job(conn, SITE, "ocr", job_key="late") == (5, 1, 2, False)
    assert claims(conn) == [(SITE, "ocr", 1)]


def test_a_redelivered_job_neither_counts_nor_claims(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 2)
    assert finish_job(conn, SITE, "ocr", job_key="a") == (1, 0, 2, False)
    assert finish_job(conn, SITE, "ocr", job_key="a", error="again") == (1, 0, 2, False)
    assert site(conn, "last_error_message") == (None,)
    assert finish_job(conn, SITE, "ocr", job_key="b") == (2, 0, 2, True)
    assert finish_job(conn, SITE, "ocr", job_key="b") == (2, 0, 2, False)


def test_a_redelivered_job_does_not_take_a_claim_that_is_free(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    finish_job(conn, SITE, "ocr", job_key="a")
    conn.exec_driver_sql("UPDATE sites SET coordinator_enqueued = false")
    assert not finish_job(conn, SITE, "ocr", job_key="a").claimed


def test_a_claim_has_an_age_and_counts_its_attempts(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    finish_job(conn, SITE, "ocr", job_key="a")
    first = conn.exec_driver_sql("SELECT claimed_at FROM pipeline_claim").scalar()
    assert first is not None
    conn.exec_driver_sql("UPDATE sites SET coordinator_enqueued = false")  # a reconciler releases it
    assert claim_coordinator_enqueue(conn, SITE)
    assert claims(conn) == [(SITE, "ocr", 2)]
    advance_stage(conn, SITE, to="compilation", totals={"compilation": 1})
    assert claims(conn) == []
    finish_job(conn, SITE, "compilation")
    assert claims(conn) == [(SITE, "compilation", 1)]


def test_a_job_that_was_killed_leaves_the_stage_open(conn: Connection) -> None:
    """Counters alone cannot know of it; they must not pretend that the stage ended."""
    initialize_stage(conn, SITE, "ocr", 2)
    assert not finish_job(conn, SITE, "ocr").claimed
    assert not should_trigger_coordinator(conn, SITE, "ocr")
    assert not claim_coordinator_enqueue(conn, SITE)


def test_nothing_counted_is_not_ready(conn: Connection) -> None:
    for stage in STAGES:
        assert not should_trigger_coordinator(conn, SITE, stage)
    assert not claim_coordinator_enqueue(conn, SITE)


def test_unknown_stages_and_sites_are_errors_and_nothing_is_written(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 3)
    before = everything(conn)
    for stage in ("orc", "completed", "", "ocr_total = 0; --"):
        for call in (
            lambda stage=stage: initialize_stage(conn, SITE, stage, 1),
            lambda stage=stage: increment_completed(conn, SITE, stage),
            lambda stage=stage: increment_failed(conn, SITE, stage, "m", "E"),
            lambda stage=stage: should_trigger_coordinator(conn, SITE, stage),
            lambda stage=stage: finish_job(conn, SITE, stage),
            lambda stage=stage: finish_job(conn, SITE, stage, job_key="k"),
            lambda stage=stage: advance_stage(conn, SITE, to="deploy", totals={stage: 1}),
        ):
            with pytest.raises(UnknownStage, match="use one of fetch, ocr"):
                call()
    for attempt in (
        lambda: initialize_stage(conn, "no.gov", "ocr", 1),
        lambda: initialize_stage(conn, "no.gov", "ocr", 0, restart=True),
        lambda: increment_completed(conn, "no.gov", "ocr"),
        lambda: increment_failed(conn, "no.gov", "ocr", "m", "E"),
        lambda: should_trigger_coordinator(conn, "no.gov", "ocr"),
        lambda: claim_coordinator_enqueue(conn, "no.gov"),
        lambda: finish_job(conn, "no.gov", "ocr", error="x"),
        lambda: finish_job(conn, "no.gov", "ocr", job_key="k"),
        lambda: advance_stage(conn, "no.gov", to="ocr", totals={"ocr": 1}),
        lambda: advance_stage(conn, "no.gov", to="completed"),
    ):
        with pytest.raises(UnknownSite, match=r"no site 'no\.gov'"):
            attempt()
    assert everything(conn) == before


def test_numbers_and_keys_that_cannot_be_are_refused(conn: Connection) -> None:
    initialize_stage(conn, SITE, "fetch", 1)
    before = everything(conn)
    for call in (
        lambda: initialize_stage(conn, SITE, "ocr", -1),
        lambda: advance_stage(conn, SITE, to="ocr", totals={"ocr": -1}),
        lambda: advance_stage(conn, SITE, to="ocr", totals={}),
        lambda: advance_stage(conn, SITE, to="ocr", totals={"ocr": 1, "deploy": 1}),
        lambda: advance_stage(conn, SITE, to="completed", totals={"deploy": 1}),
        lambda: finish_job(conn, SITE, "fetch", job_key=""),
    ):
        with pytest.raises(InvalidJobs):
            call()
    assert everything(conn) == before


def test_a_late_job_of_a_past_stage_counts_and_claims_nothing(conn: Connection) -> None:
    initialize_stage(conn, SITE, "ocr", 1)
    finish_job(conn, SITE, "ocr")
    advance_stage(conn, SITE, to="deploy", totals={"deploy": 1})
    assert finish_job(conn, SITE, "ocr") == JobOutcome(2, 0, 1, False)
    assert site(conn, "current_stage", "coordinator_enqueued") == ("deploy", False)
    assert finish_job(conn, SITE, "deploy").claimed


def test_the_clock_is_the_servers_in_utc(sites: Database) -> None:
    with sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 1)
    fresh = (
        "abs(julianday(updated_at) - julianday('now')) < 0.001"
        if sites.is_sqlite
        else "abs(extract(epoch FROM updated_at - now())) < 60"
    )
    assert sites.value(f"SELECT count(*) FROM sites WHERE {fresh}") == 1


def test_the_last_error_stands_as_long_as_its_failure_is_counted(conn: Connection) -> None:
    error = ("last_error_stage", "last_error_message", "last_error_at")
    initialize_stage(conn, SITE, "ocr", 1)
    increment_failed(conn, SITE, "ocr", "PDF corrupted", "PdfReadError")
    assert site(conn, *error)[:2] == ("ocr", "PdfReadError: PDF corrupted")
    assert site(conn, "last_error_at") != (None,)
    advance_stage(conn, SITE, to="deploy", totals={"deploy": 1})
    assert site(conn, "last_error_stage") == ("ocr",)
    advance_stage(conn, SITE, to="completed")
    initialize_stage(conn, SITE, "ocr", 1)
    assert site(conn, *error) == (None, None, None)


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("x" * 600, "E: " + "x" * 497),
        ("é" * 600, "E: " + "é" * 497),
        ("😀" * 600, "E: " + "😀" * 497),
        ("NUL \x00 and half \ud83d of a pair", "E: NUL \ufffd and half \ufffd of a pair"),
    ],
    ids=["ascii", "two bytes", "four bytes", "not storable"],
)
def test_errors_are_cut_to_500_characters(conn: Connection, message: str, kept: str) -> None:
    initialize_stage(conn, SITE, "ocr", 2)
    increment_failed(conn, SITE, "ocr", message, "E")
    assert site(conn, "last_error_message") == (kept,)
    finish_job(conn, SITE, "ocr", error="E: " + message)
    assert site(conn, "last_error_message") == (kept,)
    assert len(kept) <= 500


def test_the_flag_is_a_real_boolean(conn: Connection) -> None:
    def matching(condition: str) -> object:
        return conn.exec_driver_sql(
            f"SELECT count(*) FROM sites WHERE subdomain = '{SITE}' AND {condition}"
        ).scalar()

    assert matching("coordinator_enqueued = false") == 1
    initialize_stage(conn, SITE, "ocr", 1)
    assert matching("coordinator_enqueued = false") == 1
    finish_job(conn, SITE, "ocr")
    assert matching("coordinator_enqueued = true") == 1
    if conn.dialect.name == "sqlite":
        assert matching("typeof(coordinator_enqueued) = 'integer'") == 1


def test_a_rolled_back_job_was_never_counted(sites: Database) -> None:
    with sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 1)
    with sites.engine.connect() as conn:
        assert finish_job(conn, SITE, "ocr", job_key="k").claimed
        conn.rollback()
    with sites.begin() as conn:
        assert finish_job(conn, SITE, "ocr", job_key="k") == (1, 0, 1, True)


@pytest.mark.parametrize("keyed", [False, True])
def test_last_jobs_that_wait_for_each_other_make_one_claim(pg_sites: Database, keyed: bool) -> None:
    """Each waits for the row while another, one after the other, ends the stage or overshoots it."""
    with pg_sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 3)
    holder = pg_sites.engine.connect()
    holder.exec_driver_sql("SELECT 1 FROM sites WHERE subdomain = 'a.gov' FOR UPDATE")

    def finish(number: int) -> JobOutcome:
        with pg_sites.begin() as conn:
            return finish_job(conn, SITE, "ocr", job_key=f"job {number % 5}" if keyed else None)

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(finish, number) for number in range(6)]
        wait_for_locks(pg_sites, 6)
        holder.rollback()
        outcomes = [job.result(20) for job in jobs]
    holder.close()
    assert sum(outcome.claimed for outcome in outcomes) == 1
    assert max(outcome.completed for outcome in outcomes) == (5 if keyed else 6)
    assert pg_sites.value("SELECT attempts FROM pipeline_claim") == 1


def test_a_job_that_waited_for_a_restart_counts_in_the_new_run(pg_sites: Database) -> None:
    with pg_sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 1)
    with pg_sites.begin() as conn:
        assert finish_job(conn, SITE, "ocr", job_key="k").claimed
    restart = pg_sites.engine.connect()
    initialize_stage(restart, SITE, "ocr", 1, restart=True)

    def finish() -> JobOutcome:
        with pg_sites.begin() as conn:
            return finish_job(conn, SITE, "ocr", job_key="k")

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(finish)
        wait_for_locks(pg_sites, 1)
        restart.commit()
        assert job.result(20) == (1, 0, 1, True)
    restart.close()


def test_a_driver_error_is_sqlalchemys_and_a_lost_connection_leaves_the_pool(pg_sites: Database) -> None:
    with pg_sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 1)
    with pg_sites.engine.connect() as conn:
        conn.exec_driver_sql("SET TRANSACTION READ ONLY")
        with pytest.raises(InternalError, match="read-only"):
            finish_job(conn, SITE, "ocr")
    with pg_sites.engine.connect() as conn:
        pid = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        pg_sites.run(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(OperationalError) as caught:
            finish_job(conn, SITE, "ocr")
        assert caught.value.connection_invalidated
        conn.rollback()
        assert finish_job(conn, SITE, "ocr").claimed


def test_the_callers_transaction_begins_with_the_first_job(sites: Database) -> None:
    with sites.begin() as conn:
        initialize_stage(conn, SITE, "ocr", 2)
    with sites.engine.connect() as conn:
        finish_job(conn, SITE, "ocr")
        assert conn.in_transaction()
        conn.commit()
        finish_job(conn, SITE, "ocr")
    with sites.begin() as conn:
        assert site(conn, "ocr_completed") == (1,)
