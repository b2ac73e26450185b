"""The scene of the production guide: 300 sites, 105 stuck, 82 deferred coordinators, 2,695 failed jobs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from pipestate.pipeline.demo import scene
from support.alembic_runs import ROOT, Migrations
from support.documentation import Command, Shell
from support.queues import RqBed
from support.servers import Database, Postgres
from support.stuck_sites import Pipeline

pytestmark = pytest.mark.scene


def fill(database: Database) -> None:
    with database.begin() as connection:
        scene.build(connection)
    Migrations(database).upgrade("0005")


@pytest.fixture
def production(postgres: Postgres, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    database = postgres.copy_of("production", fill)
    storage = tmp_path / "sites"
    storage.mkdir()
    scene.write_files(storage)
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        scene.fill_queues(redis, storage)
        yield Pipeline(database, storage, RqBed(redis))
    postgres.drop(database)


@pytest.fixture
def shell(production: Pipeline, redis_url: str, tmp_path: Path) -> Shell:
    directory = tmp_path / "project"
    directory.mkdir()
    environment = {
        "DATABASE_URL": production.database.text,
        "REDIS_URL": redis_url,
        "STORAGE_DIR": str(production.root),
        "ALEMBIC_CONFIG": str(ROOT / "alembic.ini"),
        "PYTHONPATH": str(ROOT / "examples"),
    }
    return Shell(directory, environment)


def state(production: Pipeline) -> tuple[object, ...]:
    """Sites, claims and queues, as far as a step could change them."""
    rows = production.everything()
    return (*rows[:3], rows[-1], production.database.rows("SELECT * FROM site_progress ORDER BY 1"))


def test_the_runbook_is_worked_through_and_its_gate_opens(production: Pipeline, shell: Shell) -> None:
    def pipestate(arguments: str) -> str:
        return shell.must(Command(f"pipestate {arguments}", 0))

    def again_changes_nothing(arguments: str) -> str:
        before = state(production)
        output = pipestate(arguments)
        assert state(production) == before
        return output

    assert "Would migrate 105 sites" in again_changes_nothing("backfill --dry-run")
    assert "Migrated 105 sites" in pipestate("backfill")
    assert "Migrated 0 sites" in again_changes_nothing("backfill")
    assert production.database.rows(
        "SELECT current_stage, ocr_total, ocr_completed, ocr_failed, count(*) FROM sites "
        "WHERE current_stage IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 3"
    ) == [("ocr", 15, 0, 15, 2), ("ocr", 15, 12, 3, 103)]

    pipestate("backfill sites-consolidation/stage")
    again_changes_nothing("backfill sites-consolidation/stage")
    assert production.database.rows("SELECT current_stage, count(*) FROM sites GROUP BY 1 ORDER BY 1") == [
        ("completed", 195),
        ("ocr", 105),
    ]

    would = "Would delete 82 deferred coordinators and 2,695 failed OCR jobs"
    assert would in again_changes_nothing("queues clear --dry-run")
    assert "Deleted 82 deferred" in pipestate("queues clear --export cleared.jsonl")
    assert len((shell.directory / "cleared.jsonl").read_text().splitlines()) == 82 + 2695
    assert "nothing to clear" in again_changes_nothing("queues clear --export cleared.jsonl")

    planned = json.loads(again_changes_nothing("reconcile --dry-run --json"))
    assert (planned["found"], planned["recovered"]) == (105, 105)
    did = json.loads(pipestate("reconcile --json"))
    assert [site["action"] for site in did["sites"]] == [site["action"] for site in planned["sites"]]
    assert did["recovered"] == 105
    assert "No stuck sites" in again_changes_nothing("reconcile")

    shell.must(Command("python -m clerk.worker --burst --simple", 0))
    assert production.database.rows(
        "SELECT current_stage, sum(ocr_completed), count(*) FROM sites GROUP BY 1"
    ) == [("completed", 103 * 12 + 2 * 15, 300)]
    closed = shell.must(Command("pipestate verify --phase backfill", 1))
    assert "new_sites_completed is 0" in closed, "recovered sites prove nothing about a new one"
    assert "minutes_ago is NULL" in closed or "no row" in closed, "a run by hand is none of the schedule"
    shell.must(Command(f"python -m clerk.start {scene.NEW_SITE}", 0))
    shell.must(Command("python -m clerk.worker --burst --simple", 0))

    for name in ("code-deployed", "dry-run-done"):
        pipestate(f"attest {name} --by ops")
    pipestate("reconcile --trigger cron")
    triggers = "SELECT triggered_by, found FROM pipeline_reconciliation ORDER BY id"
    assert production.database.rows(triggers) == [("manual", 105), ("manual", 0), ("cron", 0)]
    refused = shell.run("pipestate reconcile --site site000.example.gov --trigger cron")
    assert refused.returncode == 2
    assert "--site works only for a manual run: leave out --trigger cron" in refused.stderr
    pipestate("observe")
    again_changes_nothing("observe")
    verified = json.loads(again_changes_nothing("verify --phase backfill --json"))
    assert verified["ok"]
    assert verified["summary"]["failed"] == 0
