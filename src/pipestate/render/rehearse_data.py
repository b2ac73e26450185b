"""A rehearsal as JSON has it; `rehearse.schema.json` describes it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipestate.rehearse.felt import STRONGEST, PhaseAsked, Rehearsal, Return, RevisionFelt, TableFelt, spelt
from pipestate.verify.report import PhaseReport
from pipestate.verify.verdict import Outcome

SCHEMA = Path(__file__).with_name("rehearse.schema.json")
SCHEMA_VERSION = 1


def rehearsal_as_data(found: Rehearsal) -> dict[str, Any]:
    """The whole result."""
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": found.exit_code == 0,
        "clone": found.clone,
        "server": found.server,
        "before": found.before,
        "after": found.after,
        "duration_ms": round(found.duration_ms, 1),
        "noise_ms": round(found.noise_ms, 1),
        "longest_stall_ms": round(found.longest_stall_ms, 1),
        "max_stall_ms": found.limit_ms,
        "failure": asdict(found.failure) if found.failure else None,
        "revisions": [_revision(found, revision) for revision in found.revisions],
        "phases": [_phase(asked) for asked in found.phases],
        "findings": [asdict(finding) for finding in found.findings],
        "there_and_back": _return(found.returned),
        "not_probed": found.not_probed,
        "not_tried": found.not_tried,
        "autovacuum": list(found.autovacuum),
    }


def _return(returned: Return | None) -> dict[str, Any] | None:
    if returned is None:
        return None
    failure = asdict(returned.failure) if returned.failure else None
    return {"ok": returned.ok, "back": returned.back, "again": returned.again, "failure": failure}


def _phase(asked: PhaseAsked) -> dict[str, Any]:
    return {"phase": asked.phase, "before": _gate(asked.before), "after": _gate(asked.after)}


def _gate(found: PhaseReport) -> dict[str, Any]:
    return {
        "gate": str(found.gate),
        "checks": [
            {
                "id": verdict.check_id,
                "outcome": str(verdict.outcome),
                "level": str(verdict.level),
                "message": verdict.message,
            }
            for verdict in found.checks
            if verdict.outcome is not Outcome.SKIPPED
        ],
    }


def _revision(found: Rehearsal, revision: RevisionFelt) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "path": str(Path(revision.path)),
        "duration_ms": round(revision.duration_ms, 1),
        "gates": [
            {"gate": gate.gate, "state": gate.state, "failing": list(gate.failing)} for gate in revision.gates
        ],
        "tables": [_table(found, table) for table in revision.tables],
    }


def _table(found: Rehearsal, table: TableFelt) -> dict[str, Any]:
    return {
        "table": table.table,
        "rows": table.rows,
        "production_rows": table.production_rows,
        "scale": _rounded(table.scale, 3),
        "bytes": table.bytes,
        "modes": [spelt(mode) for mode in table.modes],
        "rewritten": table.rewritten,
        "taken_at": table.taken_by.source if table.taken_by else None,
        "spent_at": table.spent_by.source if table.spent_by else None,
        "bounded": table.bounded,
        "bounded_by": _how_known(table),
        "waited_for_reader_ms": _rounded(table.met.waited_ms if table.met else None),
        "lock_timeout_ms": _rounded(table.lock_timeout_ms),
        "held_ms": _rounded(table.held_ms),
        "queued_ms": _rounded(table.queued_ms),
        "writer_ms": _rounded(table.writer_ms),
        "reader_ms": _rounded(table.reader_ms),
        "rows_ms": _rounded(table.rows_ms),
        "stall_ms": _rounded(table.stall_ms),
        "production_stall_ms": _rounded(table.production_stall_ms),
        "noise": table.stall_ms < found.noise_floor_ms,
        "oldest_transaction_s": found.oldest.get(table.table),
    }


def _how_known(table: TableFelt) -> str | None:
    if table.bounded is None or STRONGEST not in table.modes:
        return None
    return "tried" if table.met is not None else "lock_timeout"


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
