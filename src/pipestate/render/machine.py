"""JSON, `schema_version` 1. The schema ships beside this file; scripts rely on it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from pipestate.config import shown
from pipestate.safe import json_text
from pipestate.verify.report import DatabaseInfo, PhaseReport, Report, RunbookReport, count
from pipestate.verify.verdict import Verdict

SCHEMA = Path(__file__).with_name("verify.schema.json")


def as_json(report: Report) -> str:
    return json_text(json.dumps(as_data(report), indent=2, ensure_ascii=False))


def as_data(report: Report) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "ok": report.ok,
        "database": database_as_data(report.database),
        "started_at": instant(report.started_at),
        "duration_ms": report.duration_ms,
        "summary": report.summary(),
        "warnings": list(report.warnings),
        "runbooks": [_runbook(runbook) for runbook in report.runbooks],
    }


def database_as_data(info: DatabaseInfo) -> dict[str, Any]:
    return {
        "url": info.url,
        "dialect": info.dialect,
        "server_version": info.server_version,
        "revision": info.revision,
        "head": info.head,
    }


def error_as_json(url: URL | None, error: Exception) -> str:
    """The same shape where nothing could be evaluated: `ok` is false, and `error` says why."""
    data = {
        "schema_version": 1,
        "ok": False,
        "error": str(error),
        "database": {
            "url": shown(url) if url is not None else None,
            "dialect": url.get_backend_name() if url is not None else None,
            "server_version": None,
            "revision": None,
            "head": None,
        },
        "started_at": instant(datetime.now(UTC)),
        "duration_ms": 0.0,
        "summary": count(()),
        "warnings": [],
        "runbooks": [],
    }
    return json_text(json.dumps(data, indent=2, ensure_ascii=False))


def instant(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _runbook(runbook: RunbookReport) -> dict[str, Any]:
    return {
        "name": runbook.name,
        "path": runbook.path,
        "phases": [_phase(phase) for phase in runbook.phases],
    }


def _phase(phase: PhaseReport) -> dict[str, Any]:
    return {
        "name": phase.name,
        "gate": str(phase.gate),
        "checks": [check_as_data(verdict) for verdict in phase.checks],
    }


def check_as_data(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.check_id,
        "outcome": str(verdict.outcome),
        "level": str(verdict.level),
        "require": verdict.require,
        "observed": dict(verdict.observed),
        "message": verdict.message,
        "source": verdict.source,
        "block": verdict.block,
        "duration_ms": verdict.duration_ms,
        "evidence": [dict(row) for row in verdict.evidence],
        "evidence_rows": verdict.evidence_rows,
    }
