"""Fleet as lines: JSON, `schema_version` 1, one for each database and one for all; and lines for stderr.

The JSON Schema ships beside this file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipestate.cli.formats.json import as_plain, drift_as_data
from pipestate.core.text import many
from pipestate.fleet.ask import Answer, PhaseFound, TenantUpgrade, UpgradeOutcome
from pipestate.fleet.run import Fleet

MOST_WARNINGS = 5
SCHEMA = Path(__file__).with_name("fleet.schema.json")
SHAPES = {
    Answer: "name url=shown_url schema exit_code error dialect server_version revision head duration_ms summary phases "
    "drift pending next=pending upgrade warnings",
    PhaseFound: "phase=name gate wrong",
}


def answer_as_data(answer: Answer) -> dict[str, Any]:
    """Return the data of one database; unknown values are null."""
    data = as_plain(answer, SHAPES)
    data["summary"] = data["summary"] or None
    data["drift"] = drift_as_data(answer.drift) if answer.drift else None
    data["pending"] = _pending(answer)
    data["next"] = answer.pending.next if answer.pending else None
    data["upgrade"] = _upgrade(answer.upgrade) if answer.upgrade else None
    return {"schema_version": 1, "kind": "database", **data}


def fleet_as_data(fleet: Fleet) -> dict[str, Any]:
    """Return the data of the last line: the totals."""
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
        "drifted": list(fleet.drifted),
        "repeated": [{"source": each.source, "url": each.address} for each in fleet.repeated],
        "left": fleet.left,
        "waves": [
            {
                "wave": each.number,
                "databases": each.databases,
                **dict.fromkeys(UpgradeOutcome, 0),
                **each.outcomes,
            }
            for each in fleet.waves
        ],
        "shard": fleet.shard,
        "stopped": fleet.stopped,
    }


def asides(fleet: Fleet) -> Iterator[str]:
    """List repeated databases, and each warning once."""
    for tenant in fleet.repeated:
        yield f"note: {tenant.source} names {tenant.address} again: it was evaluated once"
    for warning, number in fleet.warnings[:MOST_WARNINGS]:
        yield f"warning: {warning}" + (f" (in {many(number, 'database')})" if number > 1 else "")
    if len(fleet.warnings) > MOST_WARNINGS:
        yield f"and {many(len(fleet.warnings) - MOST_WARNINGS, 'more warning')}: --json has all of them"


def _pending(answer: Answer) -> list[str] | None:
    """List the revisions that are pending now."""
    if answer.upgrade is not None:
        return [each for each in answer.upgrade.pending if each not in answer.upgrade.applied]
    return list(answer.pending.revisions) if answer.pending else None


def _upgrade(done: TenantUpgrade) -> dict[str, Any]:
    return {
        "wave": done.wave,
        "outcome": str(done.outcome),
        "before": done.before,
        "applied": list(done.applied),
        "waiting": [{"revision": revision, "gate": gate} for revision, gate in done.waiting],
        "held": [{"revision": each, "gated": each not in done.held_ungated} for each in done.held],
    }
