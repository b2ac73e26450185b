"""Criteria of sites-consolidation, followed through commands: the week of soak, the release, the rollback."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from application.runbooks.sites_consolidation_cases import PAGE
from pipestate.gate import GateClosed
from pipestate.pipeline.reconcile.stuck import find_stuck
from pipestate.verify.report import Outcome
from support.alembic_runs import ROOT, Migrations
from support.healthy_database import build_healthy, reconciliation, refresh
from support.programs import run_program
from support.servers import Database, Postgres, Sqlite
from support.sql_times import run_timed
from support.verdicts import rows_of, verdict

RUNBOOK = PAGE.runbook
ROLLBACK = "sites-consolidation/rollback"


def pipestate(database: Database, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": database.text}
    return run_program(["pipestate", *arguments], cwd=ROOT, environment=environment)


@pytest.fixture
def ready(bed: Postgres | Sqlite) -> Iterator[Database]:
    with PAGE.copy(bed, "readiness") as database:
        yield database


@pytest.mark.parametrize(
    ("check", "statement"),
    [
        (
            "stuck-sites",
            "UPDATE sites SET updated_at = <3 hours ago> WHERE subdomain = 'site010.example.gov'",
        ),
        (
            "health-score",
            "UPDATE sites SET current_stage = 'ocr', updated_at = NULL WHERE subdomain LIKE 'site1%'",
        ),
    ],
)
def test_a_day_with_stuck_sites_ends_the_week_of_soak(ready: Database, check: str, statement: str) -> None:
    assert verdict(ready, RUNBOOK, "readiness/soak").outcome is Outcome.PASSED
    run_timed(ready, statement)
    done = pipestate(ready, "verify", RUNBOOK.name, "--phase", "backfill", "--record")
    assert done.returncode == 1, done.stderr
    run_timed(ready, "UPDATE sites SET current_stage = 'completed', updated_at = <1 minutes ago>")
    found = verdict(ready, RUNBOOK, "readiness/soak")
    assert found.outcome is Outcome.FAILED
    assert ("the gate was closed", check) in {(row[0], row[3]) for row in rows_of(found)}


@pytest.mark.parametrize(("at", "contract"), [("0005", "0006"), ("0006", "0007")])
def test_no_contract_before_the_deployed_version_is_signed_off(
    bed: Postgres | Sqlite, at: str, contract: str
) -> None:
    def build(database: Database) -> None:
        build_healthy(database, at)

    database = bed.copy_of(f"unsigned-{at}", build)
    refresh(database)
    database.run("DELETE FROM pipestate.attestation WHERE name = 'old-columns-unread'")
    migrations = Migrations(database)
    with pytest.raises(GateClosed, match="old-columns-unread: not signed off within 14d"):
        migrations.upgrade(contract)
    assert migrations.revision() == at
    done = pipestate(database, "attest", "old-columns-unread", "--by", "ops@example.com")
    assert done.returncode == 0, done.stderr
    migrations.upgrade(contract)
    assert migrations.revision() == contract
    bed.drop(database)


def test_the_rollback_is_verified_by_its_own_gate(ready: Database) -> None:
    """Sites change and come while the old account is away; the downgrade derives what it lacks."""
    assert pipestate(ready, "gate", ROLLBACK).returncode == 0, "the previous release still runs here"
    Migrations(ready).upgrade("head")
    assert pipestate(ready, "gate", ROLLBACK).returncode == 2, "finished"
    run_timed(
        ready,
        "UPDATE pipestate.run SET recorded_at = <5 minutes ago> WHERE event = 'upgrade'",
        "UPDATE sites SET current_stage = 'deploy', updated_at = CURRENT_TIMESTAMP "
        "WHERE subdomain = 'site010.example.gov'",
        "INSERT INTO sites (subdomain, current_stage, updated_at) "
        "VALUES ('new.example.gov', 'completed', CURRENT_TIMESTAMP)",
    )
    Migrations(ready).downgrade("0005")
    done = pipestate(ready, "gate", ROLLBACK)
    assert done.returncode == 0, done.stdout
    ready.run("DELETE FROM site_progress WHERE subdomain = 'new.example.gov'")
    done = pipestate(ready, "gate", ROLLBACK)
    assert done.returncode == 1
    assert "new.example.gov" in done.stdout
    ready.run("ALTER TABLE sites DROP COLUMN last_deployed")
    assert "last_deployed" in pipestate(ready, "gate", ROLLBACK).stdout


def test_an_application_that_never_had_a_column_is_not_advised_to_restore_it(migrations: Migrations) -> None:
    """Before the contract the phase is part of every `verify` at 0005."""
    migrations.upgrade("0005")
    migrations.database.run("ALTER TABLE sites DROP COLUMN last_deployed")
    assert pipestate(migrations.database, "gate", ROLLBACK).returncode == 0


def test_the_backfill_gives_sites_their_stage_and_leaves_what_it_does_not_know(
    migrations: Migrations,
) -> None:
    """195 of 301 sites had their only state in `status`, and readiness opened."""
    database = migrations.database
    migrations.upgrade("0002")
    statuses = ("needs_ocr", "needs_extraction", "needs_deploy", "deployed", "no_documents", "paused")
    database.run(
        *(f"INSERT INTO sites (subdomain, status) VALUES ('{status}', '{status}')" for status in statuses),
        "INSERT INTO sites (subdomain) VALUES ('never-started')",
        "INSERT INTO sites (subdomain, status) VALUES ('in-ocr', 'needs_ocr'), ('moved', 'needs_ocr')",
        "INSERT INTO site_progress (subdomain, current_stage) VALUES ('in-ocr', 'ocr')",
    )
    migrations.upgrade("0005")
    database.run("UPDATE sites SET current_stage = 'deploy' WHERE subdomain = 'moved'")
    check = "readiness/sites-without-stage"
    assert len(rows_of(verdict(database, RUNBOOK, check))) == 7
    done = pipestate(database, "backfill", "sites-consolidation/stage")
    assert done.returncode == 0, done.stderr
    counts = "ocr_total, compilation_total, extraction_total, deploy_total, last_error_stage"
    rows = database.rows(f"SELECT subdomain, current_stage, {counts} FROM sites ORDER BY subdomain")
    assert rows == [
        ("deployed", "completed", 0, 0, 0, 0, None),
        ("in-ocr", None, 0, 0, 0, 0, None),  # left to `pipestate backfill`, which counts its documents
        ("moved", "deploy", 0, 0, 0, 0, None),
        ("needs_deploy", "deploy", 0, 0, 0, 1, None),
        ("needs_extraction", "extraction", 0, 1, 1, 0, None),
        ("needs_ocr", "ocr", 1, 0, 0, 0, None),
        ("never-started", None, 0, 0, 0, 0, None),
        ("no_documents", "completed", 0, 0, 0, 0, "fetch"),
        ("paused", None, 0, 0, 0, 0, None),
    ]
    left = [row[1:3] for row in rows_of(verdict(database, RUNBOOK, check))]
    assert left == [("in-ocr", "needs_ocr"), ("paused", "paused")]
    assert verdict(database, RUNBOOK, "backfill/counters-consistent").outcome is Outcome.PASSED
    with database.reader() as connection:
        stuck = {site.subdomain for site in find_stuck(connection)}
    assert stuck >= {"needs_ocr", "needs_extraction", "needs_deploy"}, "the reconciliation takes them on"
    assert stuck.isdisjoint({"deployed", "no_documents"})


def test_an_application_without_status_has_no_site_without_stage(migrations: Migrations) -> None:
    migrations.upgrade("0005")
    migrations.database.run(
        "INSERT INTO sites (subdomain) VALUES ('never-started')", "ALTER TABLE sites DROP COLUMN status"
    )
    assert verdict(migrations.database, RUNBOOK, "readiness/sites-without-stage").outcome is Outcome.PASSED


def test_of_runs_in_one_quarter_of_an_hour_the_worst_counts(ready: Database) -> None:
    run_timed(ready, reconciliation("5 minutes ago", found=7), reconciliation("5 minutes ago"))
    found = verdict(ready, RUNBOOK, "readiness/reconciliation-runs")
    assert (found.outcome, found.observed["runs"], found.observed["most_found"]) == (Outcome.FAILED, 10, 7)


def test_a_manual_run_that_recovers_nothing_is_no_intervention(ready: Database) -> None:
    run_timed(ready, reconciliation("1 days ago", triggered_by="manual"))
    assert verdict(ready, RUNBOOK, "readiness/manual-interventions").outcome is Outcome.PASSED
