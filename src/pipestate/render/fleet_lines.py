"""A fleet as lines: JSON, `schema_version` 1, one a database and one for all, and what goes to stderr.

The JSON Schema ships beside this file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipestate.fleet.answer import Answer, PhaseFound
from pipestate.fleet.drift import Drift
from pipestate.fleet.run import Fleet
from pipestate.plural import many

MOST_WARNINGS = 5
SCHEMA = Path(__file__).with_name("fleet.schema.json")


def answer_as_data(answer: Answer) -> dict[str, Any]:
    """One database; what is not known is null."""
    return {
        "schema_version": 1,
        "kind": "database",
        "name": answer.name,
        "url": answer.shown_url,
        "schema": answer.schema,
        "exit_code": answer.exit_code,
        "error": answer.error,
        "dialect": answer.dialect,
        "server_version": answer.server_version,
        "revision": answer.revision,
        "head": answer.head,
        "duration_ms": answer.duration_ms,
        "summary": dict(answer.summary) or None,
        "phases": [_phase(phase) for phase in answer.phases],
        "definitions": answer.definitions,
        "pending": list(answer.pending.revisions) if answer.pending else None,
        "next": answer.pending.next if answer.pending else None,
        "warnings": list(answer.warnings),
    }


def fleet_as_data(fleet: Fleet) -> dict[str, Any]:
    """The last line."""
    return {
        "schema_version": 1,
        "kind": "summary",
        "ok": fleet.exit_code == 0,
        "exit_code": fleet.exit_code,
        "databases": fleet.total,
        "asked": fleet.asked,
        "interrupted": fleet.is_interrupted,
        "duration_ms": fleet.duration_ms,
        "exit_codes": {str(code): number for code, number in fleet.codes.items()},
        "groups": [
            {
                "databases": len(group.names),
                "first": group.names[0],
                "revision": group.state.revision,
                "closed": list(group.state.closed),
                "error": group.state.error,
            }
            for group in fleet.groups
        ],
        "drift": [_drift(drift) for drift in fleet.drifts],
        "repeated": [{"source": each.source, "url": each.address} for each in fleet.repeated],
    }


def asides(fleet: Fleet) -> Iterator[str]:
    """What should be known besides: databases that the list names twice, and warnings, each once."""
    for tenant in fleet.repeated:
        yield f"note: {tenant.source} names {tenant.address} again: it was asked once"
    for warning, number in fleet.warnings[:MOST_WARNINGS]:
        yield f"warning: {warning}" + (f" (in {many(number, 'database')})" if number > 1 else "")
    if len(fleet.warnings) > MOST_WARNINGS:
        yield f"and {many(len(fleet.warnings) - MOST_WARNINGS, 'more warning')}: --json has all of them"


def _phase(phase: PhaseFound) -> dict[str, Any]:
    wrong = [
        {"check": each.check, "outcome": each.outcome, "level": each.level, "message": each.message}
        for each in phase.wrong
    ]
    return {"phase": phase.name, "gate": str(phase.gate), "wrong": wrong}


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "name": drift.name,
        "revision": drift.revision,
        "alike": drift.alike,
        "like": drift.like,
        "objects": list(drift.objects),
    }
