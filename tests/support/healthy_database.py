"""A database on which every check of the runbook sites-consolidation holds: weeks after a good migration."""

import json

from pipestate.project.file_hashes import hash_files
from support.alembic_runs import Migrations
from support.legacy_database import fill_legacy
from support.servers import Database
from support.sql_times import run_timed
from support.verdicts import FILES

SIGN_OFFS = (
    ("preflight", "backup-taken"),
    ("backfill", "code-deployed"),
    ("backfill", "dry-run-done"),
    ("readiness", "backup-taken"),
    ("readiness", "old-columns-unread"),
    ("cleanup", "watched-24h"),
)


def build_healthy(database: Database, revision: str = "0005") -> None:
    """The old world, migrated up to that revision (0005 or later), with a history that opens every gate."""
    fill_legacy(database)
    Migrations(database).upgrade("0005")
    run_timed(database, *HISTORY)
    refresh(database)
    if revision != "0005":
        Migrations(database).upgrade(revision)


def build_rolled_back(database: Database) -> None:
    """The same, contracted and taken back to 0005."""
    build_healthy(database, "0007")
    Migrations(database).downgrade("0005")


def refresh(database: Database) -> None:
    """What must be recent, made so: a copy of a healthy database may be some minutes old."""
    run_timed(database, *TODAY)


def observation(name: str, value: float, when: str) -> str:
    return (
        "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) "
        f"VALUES ('{name}', {value}, 'rq', 'cron', <{when}>)"
    )


def reconciliation(when: str, *, found: int = 0, triggered_by: str = "cron") -> str:
    return (
        "INSERT INTO pipeline_reconciliation (started_at, finished_at, triggered_by, actor, found, recovered) "
        f"VALUES (<{when}>, <{when}>, '{triggered_by}', 'ops', {found}, {found})"
    )


def recorded(when: str, gate: str, *, phase: str = "backfill", event: str = "verify") -> str:
    return (
        "INSERT INTO pipestate.run (recorded_at, actor, event, runbook, phase, gate, runbook_sha256) "
        f"VALUES (<{when}>, 'cron', '{event}', 'sites-consolidation', '{phase}', '{gate}', '')"
    )


def attestation(phase: str, name: str) -> str:
    return (
        "INSERT INTO pipestate.attestation (runbook, phase, name, person, signed_at) "
        f"VALUES ('sites-consolidation', '{phase}', '{name}', 'dba', <1 minutes ago>)"
    )


def rehearsal(*revisions: str, sites: int = 150, wait_ms: float = 500, when: str = "29 days ago") -> str:
    """A rehearsal of these revisions as they are now, on a clone with so many sites."""
    files = hash_files({revision: FILES[revision] for revision in revisions})
    return (
        "INSERT INTO pipestate.rehearsal (actor, clone, files, tables, rows, longest_wait_ms, bounded, ok, rehearsed_at) "
        f"""VALUES ('ops', 'clone', '{json.dumps(files)}', '{{"sites": {sites}}}', {sites}, {wait_ms}, true, true, <{when}>)"""
    )


# What the last of the daily records says of failures, for the comparison after the contract.
BASELINE = (
    "INSERT INTO pipestate.result (run_id, check_id, outcome, level, observed) "
    "SELECT max(id), 'failure-rate', 'passed', 'warn', "
    """'{"ocr_failure_pct": "10.0", "compilation_failure_pct": 0}' FROM pipestate.run"""
)

HISTORY = (
    "UPDATE pipestate.object SET created_at = <30 days ago>",
    "UPDATE sites SET current_stage = 'completed', started_at = <40 days ago>, updated_at = <20 days ago>, "
    "ocr_total = 10, ocr_completed = 9, ocr_failed = 1, compilation_total = 1, compilation_completed = 1",
    # One that went the whole way with the counters, and one that had nothing to go with.
    "UPDATE sites SET started_at = <5 days ago>, updated_at = <4 days ago>, fetch_total = 1, "
    "fetch_completed = 1 WHERE subdomain = 'site001.example.gov'",
    "UPDATE sites SET started_at = <5 days ago>, ocr_total = 0, ocr_completed = 0, ocr_failed = 0, "
    "last_error_stage = 'fetch', last_error_message = 'No PDFs found' WHERE subdomain = 'site002.example.gov'",
    # An orphan, which no backfill can fix.
    "INSERT INTO site_progress (subdomain, current_stage, updated_at) "
    "VALUES ('gone.example.gov', 'ocr', <20 days ago>)",
    observation("deferred_coordinators", 82, "29 days ago"),
    observation("failed_ocr_jobs", 2695, "29 days ago"),
    reconciliation("29 days ago", found=105),
    reconciliation("8 days ago", found=1, triggered_by="manual"),
    *(reconciliation(f"{minutes} minutes ago", found=minutes // 50) for minutes in range(200, 0, -15)),
    recorded("12 days ago", "closed"),
    *(recorded(f"{days} days ago", "open") for days in range(10, 0, -1)),
    BASELINE,
    recorded("6 days ago", "closed", phase="readiness"),
)

TODAY = (
    "UPDATE sites SET current_stage = 'ocr', updated_at = <10 minutes ago>, ocr_completed = 4, ocr_failed = 0 "
    "WHERE subdomain IN ('site010.example.gov', 'site011.example.gov', 'site012.example.gov')",
    observation("deferred_coordinators", 0, "5 minutes ago"),
    observation("failed_ocr_jobs", 0, "5 minutes ago"),
    reconciliation("5 minutes ago", found=1),
    rehearsal("0006", "0007"),
    *(attestation(phase, name) for phase, name in SIGN_OFFS),
)
