"""JSON of all commands, `schema_version` 1. The schemas ship beside this file; scripts rely on them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestate.database.urls import shown
from pipestate.verify.report import Gate, count

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pipestate.fleet.evaluate import Answer
    from pipestate.fleet.run import Fleet
    from pipestate.rehearse.impact import Rehearsal, TableImpact

Shapes = Mapping[str, str]
VERSION = {"schema_version": 1}
GATES = {Gate.NOT_STARTED: "ahead", Gate.FINISHED: "past"}  # their names in schema_version 1
# The keys of a dataclass, by its name, if they are not its fields; `key=attribute` if the two differ, and `a.b` is the
# attribute of another one. `schema_version` is a constant.
SHAPES: Shapes = {
    # verify
    "Report": "schema_version ok database started_at duration_ms summary warnings=all_warnings runbooks",
    "RunbookReport": "name path phases",
    "PhaseReport": "name gate checks",
    "Verdict": "id=check_id outcome level require observed message source block duration_ms evidence evidence_rows",
    # drift, plan, history
    "Drift": "schema_version revision recorded_at incomparable differences",
    "MigrationPlan": "schema_version revision=database.revision head=database.head steps next=advice",
    "Entry": "at kind who what revision role",
    # status
    "Status": "schema_version at database no_ledger warnings runbooks observations forced backfills rehearsal views "
    "drift soft_dropped",
    "SoftDropped": "kind name columns revision dropped_at rows bytes",
    "RunbookStatus": "name title path phases",
    "PhaseStatus": "name gate opens checks soaks opening sign_offs held=open_streak days last_closed "
    "obstacles",
    "SignOffStatus": "id text valid_for_seconds=valid_for people missing until words",
    "Observed": "name value at age_seconds=age source actor asked_by=checked_by fails",
    "RecordedSignOff": "person at until holds=is_valid note",
    "RecordedRehearsal": "at by revisions clone rows longest_stall_ms=longest_wait_ms noise_ms=idle_wait_ms bounded ok unchanged",
    # fleet
    "Answer": "name url=shown_url schema exit_code error dialect server_version revision head duration_ms summary "
    "phases drift pending next upgrade warnings obstacles",
    "PhaseFound": "phase=name gate wrong",
    "TenantUpgrade": "wave outcome before applied waiting held=left_pending",
    "Fleet": "exit_code databases=total asked=evaluated interrupted=is_interrupted duration_ms exit_codes=codes groups drifted "
    "repeated left waves stopped",
    "Group": "databases=names first=names revision=state.revision closed=state.closed error=state.error",
    "Tenant": "source url=address",
    # rehearse
    "Rehearsal": "clone server before after duration_ms noise_ms=idle_wait_ms longest_stall_ms=longest_wait_ms max_stall_ms=limit_ms failure "
    "revisions findings writes there_and_back=returned not_probed not_tried autovacuum",
    "RevisionImpact": "revision path duration_ms gates tables",
    "TableImpact": "table rows production_rows scale bytes modes rewritten taken_at=taken_by.source "
    "spent_at=spent_by.source bounded=gives_up bounded_by=gives_up waited_for_reader_ms=encounter.waited_ms lock_timeout_ms "
    "held_ms writer_ms reader_ms rows_ms stall_ms=wait_ms production_stall_ms=production_wait_ms oldest_transaction_s=oldest_s",
    "Return": "ok back again failure",
}


def as_plain(value: Any, shapes: Shapes = SHAPES) -> Any:
    """Turn frozen values into data for JSON: without a shape, every field of a dataclass is a key.

    Times are in UTC, durations in seconds; milliseconds are rounded to tenths.

    >>> from pipestate.verify.report import RunbookReport
    >>> as_plain(RunbookReport("orders", "orders.md", "9f86", ()), {"RunbookReport": "runbook=name phases"})
    {'runbook': 'orders', 'phases': []}
    """
    if is_dataclass(value):
        names = shapes.get(type(value).__name__) or " ".join(field.name for field in fields(value))
        pairs = (name.partition("=") for name in names.split())
        data = {
            key: VERSION.get(key) or as_plain(_attribute(value, path or key), shapes)
            for key, _, path in pairs
        }
        return {
            key: round(each, 1) if key.endswith("_ms") and each is not None else each
            for key, each in data.items()
        }
    if isinstance(value, Mapping):
        return {str(key): as_plain(each, shapes) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(each, shapes) for each in value]
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Gate):
        return GATES.get(value, str(value))
    return str(value) if isinstance(value, Enum) else value


def _attribute(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value() if callable(value) else value


def instant(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def error_as_data(url: "URL | None", error: Exception) -> dict[str, Any]:
    """Return the shape of a report for a failed evaluation: `ok` is false, and `error` is the reason."""
    nothing = dict.fromkeys(("url", "dialect", "server_version", "revision", "head"))
    known = {"url": shown(url), "dialect": url.get_backend_name()} if url is not None else {}
    return {
        **VERSION,
        "ok": False,
        "error": str(error),
        "database": nothing | known,
        "started_at": instant(datetime.now(UTC)),
        "duration_ms": 0.0,
        "summary": count(()),
        "warnings": [],
        "runbooks": [],
    }


def answer_as_data(answer: "Answer") -> dict[str, Any]:
    """Return the line of one database of a fleet; unknown values are null."""
    data = {**VERSION, "kind": "database", **as_plain(answer)}
    data["summary"] = data["summary"] or None
    if answer.upgrade is not None:  # those that are pending now
        data["pending"] = [each for each in answer.upgrade.pending if each not in answer.upgrade.applied]
        done = answer.upgrade
        data["upgrade"]["waiting"] = [{"revision": each, "gate": gate} for each, gate in done.waiting]
        data["upgrade"]["held"] = [
            {"revision": each, "gated": each not in done.pending_ungated} for each in done.left_pending
        ]
    return data


def fleet_as_data(fleet: "Fleet") -> dict[str, Any]:
    """Return the last line of a fleet: the totals."""
    from pipestate.fleet.evaluate import UpgradeOutcome

    data = {**VERSION, "kind": "summary", "ok": fleet.exit_code == 0, **as_plain(fleet)}
    data["groups"] = [
        {**as_plain(each), "databases": len(each.names), "first": each.names[0]} for each in fleet.groups
    ]
    data["waves"] = [
        {
            "wave": each.number,
            "databases": each.databases,
            **dict.fromkeys(UpgradeOutcome, 0),
            **each.outcomes,
        }
        for each in fleet.waves
    ]
    return data


def rehearsal_as_data(found: "Rehearsal") -> dict[str, Any]:
    data = {**VERSION, "ok": found.exit_code == 0, **as_plain(found)}
    data["revisions"] = [
        {
            **as_plain(revision),
            "path": str(Path(revision.path)),
            "tables": [_table(found, table) for table in revision.tables],
        }
        for revision in found.revisions
    ]
    return data


def _table(found: "Rehearsal", table: "TableImpact") -> dict[str, Any]:
    from pipestate.rehearse.impact import STRONGEST, spelt

    known_by = "tried" if table.encounter is not None else "lock_timeout"
    return {
        **as_plain(table),
        "scale": None if table.scale is None else round(table.scale, 3),
        "modes": [spelt(mode) for mode in table.modes],
        "bounded_by": known_by if table.gives_up is not None and STRONGEST in table.modes else None,
        "noise": table.wait_ms < found.measurable_ms,
    }
