"""Two weeks between expand and contract, as a report shows them: numbers that calm down, a gap, a relapse."""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from pipestate.ledger.tables import Ledger, ledger_on
from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from pipestate.report.series import Limits, limits, satisfied
from pipestate.runbook.lint import load
from pipestate.status.collect import read_clock
from pipestate.verify.report import Gate, PhaseReport, Report, Verdict
from support.alembic_runs import ROOT
from support.healthy_database import build_healthy
from support.runbook_samples import run
from support.servers import Database

PROJECT = find_project(Named(config=ROOT / "alembic.ini"))
RUNBOOK = ROOT / "runbooks" / "sites-consolidation.md"
DAYS = 24
# In days before today: when the queues were clean, when cron did not run, and when a gate closed again.
CLEAN, SILENT, RELAPSE = 16, (11, 12), 4

REHEARSED = {
    "actor": "dba@example.com",
    "revision": "0005",
    "target": "0007",
    "files": {"0006": "", "0007": ""},
    "clone": "postgresql://rehearsal/civic",
    "rows": 105_300,
    "longest_wait_ms": 41.0,
    "idle_wait_ms": 3.0,
    "bounded": True,
    "ok": True,
}


def build(database: Database) -> None:
    """The healthy database of `healthy.py`, with a history that is on record day by day."""
    build_healthy(database)
    with database.reader() as connection:
        position = locator(PROJECT, read_migrations(PROJECT), None)(connection)
    report = run(database, load(RUNBOOK), revisions=position)
    database.run(*(f"DELETE FROM pipestate.{table}" for table in ("run", "observation", "attestation")))
    fill(database, report)


def fill(database: Database, report: Report) -> None:
    """Write the history into the ledger, as `verify --record` and `observe` would have."""
    ledger = ledger_on(database.url.get_backend_name())
    with database.begin() as connection:
        now = read_clock(connection)
        for ago in (ago for ago in range(DAYS, -1, -1) if ago not in SILENT):
            for phase in asked(report):
                at = now - timedelta(days=ago, minutes=20 if ago == 0 else 5)
                record(connection, ledger, phase, ago, at)
        for hour in range(DAYS * 24, -1, -3):
            if hour // 24 not in SILENT:
                at = now - timedelta(hours=hour, minutes=4)
                rows = [
                    {"name": name, "value": value, "source": "rq", "actor": "cron", "observed_at": at}
                    for name, value in observed(hour)
                ]
                connection.execute(insert(ledger.observation), rows)
        connection.execute(insert(ledger.attestation), [*signed(now)])
        connection.execute(insert(ledger.rehearsal).values(rehearsed_at=now - timedelta(days=2), **REHEARSED))


def asked(report: Report) -> Iterator[PhaseReport]:
    return (phase for _, phase in report.phases() if phase.gate in (Gate.OPEN, Gate.CLOSED))


def record(connection: Any, ledger: Ledger, phase: PhaseReport, ago: int, at: Any) -> None:
    results = [result(verdict, ago) for verdict in phase.checks]
    wrong = sum(each["outcome"] != "passed" for each in results)
    closed = wrong or (phase.name == "readiness")
    values = {
        "recorded_at": at,
        "event": "verify",
        "actor": "cron",
        "runbook": "sites-consolidation",
        "phase": phase.name,
        "gate": "closed" if closed else "open",
        "revision": "0005",
        "passed": len(results) - wrong,
        "failed": wrong,
    }
    run_id = connection.execute(insert(ledger.run).values(values).returning(ledger.run.c.id)).scalar_one()
    connection.execute(insert(ledger.result), [{"run_id": run_id, **each} for each in results])


def result(verdict: Verdict, ago: int) -> dict[str, Any]:
    """The verdict of today, with numbers as they were so many days ago."""
    seen: dict[str, Any] = {**verdict.observed, **past_numbers(verdict, ago)}
    numbers = limits(verdict.require)
    passed = all(satisfied(those, seen.get(column)) for column, those in numbers.items())
    return {
        "check_id": verdict.check_id,
        "outcome": "passed" if passed else "failed",
        "level": str(verdict.level),
        "required": verdict.require,
        "observed": seen,
        "message": message(numbers, seen) or verdict.message,
        "duration_ms": verdict.duration_ms,
    }


def message(numbers: Limits, seen: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{column} is {seen.get(column)}, required {each.required}"
        for column, those in numbers.items()
        for each in those
        if not satisfied((each,), seen.get(column))
    )


def past_numbers(verdict: Verdict, ago: int) -> Mapping[str, float]:
    wave = math.sin(ago * 1.7) + math.sin(ago * 0.6)
    numbers: dict[str, dict[str, float]] = {
        "stuck-sites": {"stuck_pct": round(35 * math.exp((ago - DAYS) / 2.5) + 0.3 + wave / 8, 2)},
        "health-score": {"health_score": round(97.8 + wave / 2 - 12 * math.exp((ago - DAYS) / 3), 1)},
        "deferred-coordinators": {"deferred_coordinators": deferred(ago)},
        "failed-ocr-jobs": {"failed_ocr_jobs": float(max(0, 2695 - 430 * (DAYS - ago)))},
        "soak": {"days_open": days_open(ago)},
    }
    found = numbers.get(verdict.check_id, {})
    if ago == RELAPSE and verdict.check_id == "stuck-sites":
        found = {"stuck_pct": 3.1}
    return {name: value for name, value in found.items() if name in verdict.observed}


def deferred(ago: float) -> float:
    """The coordinators that waited: fewer every day, and some more on the day of the relapse."""
    again = 9 if RELAPSE <= ago < RELAPSE + 0.5 else 0
    return float(max(0, round(82 - 11 * (DAYS - ago)), again))


def days_open(ago: int) -> float:
    """The days without a gap and without a relapse."""
    begins = [each for each in (CLEAN, SILENT[0] - 1, RELAPSE - 1) if each >= ago]
    return float(begins[-1] - ago) if begins else 0.0


def observed(hour: int) -> Iterator[tuple[str, float]]:
    past = DAYS - hour / 24
    wave = 1 + math.sin(hour / 9)
    yield "deferred_coordinators", deferred(hour / 24)
    yield "failed_ocr_jobs", max(0, round(2695 - 430 * past))
    yield "open_tickets", round(6 * wave + 3)


def signed(now: Any) -> Iterator[dict[str, Any]]:
    words = (
        ("backfill", "code-deployed", "mira@example.com", 23, "release 2026.01.18"),
        ("backfill", "dry-run-done", "jo@example.com", 23, "Would migrate 105 sites"),
        ("readiness", "backup-taken", "dba@example.com", 3, "snapshot of the 17th, looked into"),
    )
    for phase, name, person, ago, note in words:
        yield {
            "runbook": "sites-consolidation",
            "phase": phase,
            "name": name,
            "person": person,
            "note": note,
            "revision": "0005",
            "signed_at": now - timedelta(days=ago),
        }
