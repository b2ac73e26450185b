"""The example application with real RQ workers: one is killed, and reconciliation brings every site home."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue

from attacks.sessions import wait_until
from support.alembic_runs import ROOT, Migrations
from support.queues import RqBed
from support.servers import Postgres
from support.stuck_sites import Pipeline

pytestmark = pytest.mark.scene

SITES = [f"site{number}.gov" for number in range(3)]
DOCUMENTS = 4
PATIENCE_S = 60


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        yield redis


@pytest.fixture
def pipeline(postgres: Postgres, redis: Redis, tmp_path: Path) -> Iterator[Pipeline]:
    database = postgres.copy_of("expanded", lambda empty: Migrations(empty).upgrade("0005"))
    pipeline = Pipeline(database, tmp_path, RqBed(redis))
    for subdomain in SITES:
        pipeline.put(subdomain, None)
        pipeline.files(subdomain, pdfs=DOCUMENTS, texts=0)
    yield pipeline
    postgres.drop(database)


def run(pipeline: Pipeline, redis_url: str, *command: str, **more: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "DATABASE_URL": pipeline.database.text,
        "REDIS_URL": redis_url,
        "STORAGE_DIR": str(pipeline.root),
        "PYTHONPATH": str(ROOT / "examples"),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def done(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    return output


def start_all(pipeline: Pipeline, redis_url: str) -> None:
    names = ", ".join(repr(name) for name in SITES)
    done(run(pipeline, redis_url, "-c", f"from clerk.workers import start\nfor s in [{names}]: start(s)"))


@contextmanager
def workers(
    pipeline: Pipeline, redis_url: str, count: int, *options: str, **more: str
) -> Iterator[list["subprocess.Popen[str]"]]:
    command = ("-m", "clerk.worker", "--burst", *options)
    started = [run(pipeline, redis_url, *command, **more) for _ in range(count)]
    try:
        yield started
    finally:
        for worker in started:
            kill(worker)


def kill(worker: "subprocess.Popen[str]") -> None:
    """With no chance to say good-bye."""
    if worker.poll() is None:
        worker.kill()
        worker.communicate()


def test_a_site_goes_from_fetch_to_completed(pipeline: Pipeline, redis_url: str) -> None:
    start_all(pipeline, redis_url)
    with workers(pipeline, redis_url, 2) as both:
        for worker in both:
            done(worker)
        done(run(pipeline, redis_url, "-m", "clerk.worker", "--burst"))  # what the last one enqueued
    all_home(pipeline)


def test_a_killed_worker_costs_nothing(pipeline: Pipeline, redis: Redis, redis_url: str) -> None:
    started = Queue("ocr", connection=redis).started_job_registry
    start_all(pipeline, redis_url)
    # A simple one works in its own process: RQ's usual worker would leave the fork behind.
    with workers(pipeline, redis_url, 1, "--simple", OCR_SECONDS="600") as (victim,):
        wait_until(
            lambda: started.get_job_count(cleanup=False) > 0,
            "a worker is in the middle of a job",
            patience_s=PATIENCE_S,
        )
        kill(victim)
    with workers(pipeline, redis_url, 1) as (other,):
        done(other)
    ((stuck, *counters),) = pipeline.database.rows(
        "SELECT subdomain, ocr_total, ocr_completed, ocr_failed FROM sites WHERE current_stage <> 'completed'"
    )
    assert counters == [DOCUMENTS, DOCUMENTS - 1, 0]

    # Hours go by: RQ takes the job for abandoned, and the site is stuck.
    pipeline.age()
    for entry, _ in redis.zscan_iter(started.key):
        redis.zadd(started.key, {entry: 1})
    output = done(run(pipeline, redis_url, "-m", "pipestate", "reconcile"))
    assert "Found 1 stuck site\n" in output
    assert f"{stuck} (ocr): 3 of 4 documents have text → 1 job again" in output
    assert "Recovered 1 site\n" in output
    assert "No stuck sites" in done(run(pipeline, redis_url, "-m", "pipestate", "reconcile"))
    with workers(pipeline, redis_url, 1) as (last,):
        done(last)
    all_home(pipeline)


def test_a_job_that_runs_out_of_time_is_counted(pipeline: Pipeline, redis: Redis, redis_url: str) -> None:
    pipeline.put("slow.gov", "ocr", hours=0, ocr_total=1)
    keywords = {"subdomain": "slow.gov", "run_id": "first", "pdf_path": "slow.pdf"}
    queue = Queue("ocr", connection=redis)
    queue.enqueue("clerk.workers.ocr_page_job", kwargs=keywords, job_timeout=1)
    with workers(pipeline, redis_url, 1, OCR_SECONDS="600") as (worker,):
        done(worker)
    stage, failed, error = pipeline.site("slow.gov", "current_stage", "ocr_failed", "last_error_message")
    assert failed == 1, stage
    assert "JobTimeoutException" in str(error)


def all_home(pipeline: Pipeline) -> None:
    for subdomain in SITES:
        row = pipeline.site(
            subdomain, "current_stage", "ocr_total", "ocr_completed", "ocr_failed", "deploy_completed"
        )
        assert row == ("completed", DOCUMENTS, DOCUMENTS, 0, 1), subdomain
    assert pipeline.queued() == []
    assert pipeline.database.rows("SELECT * FROM pipeline_claim") == []
