"""`pipestate status --json`, `schema_version` 1: the same as on the terminal, with nothing left out."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from pipestate.render.machine import check_as_data, database_as_data, instant
from pipestate.standing.model import (
    Backfilling,
    ClosedRecord,
    FailedCheck,
    Forced,
    Held,
    Observed,
    Opening,
    PhaseStanding,
    RecordedRehearsal,
    SignOffStanding,
    Soak,
    Standing,
)
from pipestate.verify.run import Shown

SCHEMA = Path(__file__).with_name("status.schema.json")


def status_as_data(standing: Standing) -> dict[str, Any]:
    """Make plain data of all of it."""
    return {
        "schema_version": 1,
        "at": instant(standing.at),
        "database": database_as_data(standing.database),
        "no_ledger": standing.no_ledger,
        "warnings": list(standing.warnings),
        "runbooks": [
            {
                "name": runbook.name,
                "title": runbook.title,
                "path": runbook.path,
                "phases": [_phase(phase) for phase in runbook.phases],
            }
            for runbook in standing.runbooks
        ],
        "observations": [_observed(each) for each in standing.observations],
        "forced": _forced(standing.forced) if standing.forced else None,
        "backfills": [_backfill(each) for each in standing.backfills],
        "rehearsal": _rehearsal(standing.rehearsal) if standing.rehearsal else None,
        "views": [_view(view) for view in standing.views],
    }


def _phase(phase: PhaseStanding) -> dict[str, Any]:
    return {
        "name": phase.name,
        "gate": str(phase.gate),
        "opens": list(phase.opens),
        "checks": [check_as_data(verdict) for verdict in phase.checks],
        "opening": _opening(phase.opening) if phase.opening else None,
        "soaks": [_soak(soak) for soak in phase.soaks],
        "sign_offs": [_signoff(signoff) for signoff in phase.signoffs],
        "held": _held(phase.held) if phase.held else None,
        "days": [
            {"date": day.date.isoformat(), "state": str(day.state), "open": day.open, "closed": day.closed}
            for day in phase.days
        ],
        "last_closed": _closed(phase.last_closed) if phase.last_closed else None,
    }


def _opening(opening: Opening) -> dict[str, Any]:
    return {"at": _moment(opening.at), "waits_for": list(opening.waits_for)}


def _soak(soak: Soak) -> dict[str, Any]:
    return {
        "check": soak.check_id,
        "of": soak.of,
        "days": soak.days,
        "required": soak.required,
        "since": _moment(soak.since),
        "opens_at": _moment(soak.opens_at),
        "passed": soak.passed,
        "ends_next": soak.ends_next,
    }


def _signoff(signoff: SignOffStanding) -> dict[str, Any]:
    return {
        "id": signoff.id,
        "text": signoff.text,
        "valid_for_seconds": int(signoff.valid_for.total_seconds()),
        "people": signoff.people,
        "missing": signoff.missing,
        "until": _moment(signoff.until),
        "words": [
            {
                "person": word.person,
                "at": instant(word.at),
                "until": instant(word.until),
                "holds": word.holds,
                "note": word.note,
            }
            for word in signoff.words
        ],
    }


def _held(held: Held) -> dict[str, Any]:
    return {
        "since": _moment(held.since),
        "days": held.days,
        "records": held.records,
        "longest_gap_hours": held.longest_gap_hours,
        "last_record_at": _moment(held.last_record_at),
        "hours_since_last_record": held.hours_since_last_record,
    }


def _closed(closed: ClosedRecord) -> dict[str, Any]:
    return {"at": instant(closed.at), "by": closed.by, "failures": _failures(closed.failures)}


def _failures(failures: Iterable[FailedCheck]) -> list[dict[str, Any]]:
    return [{"check": each.check_id, "outcome": each.outcome, "message": each.message} for each in failures]


def _observed(observed: Observed) -> dict[str, Any]:
    return {
        "name": observed.name,
        "value": observed.value,
        "at": instant(observed.at),
        "age_seconds": int(observed.age.total_seconds()),
        "source": observed.source,
        "actor": observed.actor,
        "asked_by": list(observed.asked_by),
        "fails": list(observed.fails),
    }


def _forced(forced: Forced) -> dict[str, Any]:
    return {
        "runbook": forced.runbook,
        "phase": forced.phase,
        "at": instant(forced.at),
        "by": forced.by,
        "reason": forced.reason,
        "revision": forced.revision,
        "applied": forced.applied,
        "failures": _failures(forced.failures),
    }


def _backfill(backfill: Backfilling) -> dict[str, Any]:
    return {
        "runbook": backfill.runbook,
        "id": backfill.id,
        "table": backfill.table,
        "percent": backfill.percent,
        "rows_updated": backfill.rows_updated,
        "rows_left": backfill.rows_left,
        "started_at": instant(backfill.started_at),
        "updated_at": instant(backfill.updated_at),
        "finished_at": _moment(backfill.finished_at),
        "actor": backfill.actor,
    }


def _rehearsal(rehearsal: RecordedRehearsal) -> dict[str, Any]:
    return {
        "at": instant(rehearsal.at),
        "by": rehearsal.by,
        "revisions": list(rehearsal.revisions),
        "clone": rehearsal.clone,
        "rows": rehearsal.rows,
        "longest_stall_ms": rehearsal.longest_stall_ms,
        "noise_ms": rehearsal.noise_ms,
        "bounded": rehearsal.bounded,
        "ok": rehearsal.ok,
        "unchanged": rehearsal.unchanged,
    }


def _view(view: Shown) -> dict[str, Any]:
    return {
        "runbook": view.runbook,
        "id": view.id,
        "error": view.error,
        "rows": [dict(row) for row in view.rows],
        "total": view.total,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else instant(moment)
