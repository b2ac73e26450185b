"""JSON, `schema_version` 1. The schema ships beside this file; scripts rely on it."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from pipestate.core.text import json_text
from pipestate.database.urls import shown
from pipestate.ledger.drift import Difference, Drift
from pipestate.verify.report import PhaseReport, Report, RunbookReport, Verdict, count

SCHEMA = Path(__file__).with_name("verify.schema.json")
Shapes = Mapping[type, str]
SHAPES: Shapes = {
    RunbookReport: "name path phases",
    PhaseReport: "name gate checks",
    Verdict: "id=check_id outcome level require observed message source block duration_ms evidence evidence_rows",
}


def as_json(report: Report) -> str:
    return json_text(json.dumps(as_data(report), indent=2, ensure_ascii=False))


def as_data(report: Report) -> dict[str, Any]:
    names = "ok database started_at duration_ms summary warnings runbooks"
    data = as_plain(report, {**SHAPES, Report: names})
    return {"schema_version": 1, **data, "summary": report.summary()}


def as_plain(value: Any, shapes: Shapes) -> Any:
    """Turn frozen values into data for JSON.

    `shapes` lists the keys of each dataclass, as `key=attribute` if the two differ. Without a shape, every field is
    a key.

    >>> as_plain(RunbookReport("orders", "orders.md", "9f86", ()), {RunbookReport: "runbook=name phases"})
    {'runbook': 'orders', 'phases': []}
    """
    if is_dataclass(value):
        names = shapes.get(type(value)) or " ".join(field.name for field in fields(value))
        pairs = (name.partition("=") for name in names.split())
        return {key: as_plain(getattr(value, attribute or key), shapes) for key, _, attribute in pairs}
    if isinstance(value, Mapping):
        return {key: as_plain(each, shapes) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(each, shapes) for each in value]
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    return str(value) if isinstance(value, Enum) else value


def drift_as_data(drift: Drift) -> dict[str, Any]:
    shapes = {Drift: "revision recorded_at incomparable differences", Difference: "kind name change"}
    return {"schema_version": 1, **as_plain(drift, shapes)}


def error_as_json(url: URL | None, error: Exception) -> str:
    """Return the same shape for a failed evaluation: `ok` is false, and `error` is the reason."""
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
