"""The keys that JSON gets from dataclasses are those that the shipped schemas describe."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from pipestate.cli.formats.json import SHAPES
from pipestate.ledger import drift
from pipestate.status import model, plan
from pipestate.verify import report
from support.documentation import find_schema

# Keys that are no attribute: constants, the reason of a failed run, and facts of the whole rehearsal.
ADDED = {"schema_version", "kind", "ok", "error", "noise", "oldest_transaction_s"}
SHAPED = {
    "verify": "Report RunbookReport PhaseReport Verdict DatabaseInfo",
    "plan": "MigrationPlan PlannedRevision GateState",
    "history": "Entry",
    "status": "Status SoftDropped RunbookStatus PhaseStatus Shown Soak SignOffStatus FailedCheck Observed Forced "
    "RecordedRehearsal RecordedSignOff Drift Difference OpenStreak Day ClosedRecord Opening Backfilling DatabaseInfo Verdict",
    "fleet": "Answer PhaseFound TenantUpgrade Fleet Group Tenant",
    "rehearse": "Rehearsal RevisionImpact TableImpact Return",
}
# Of these classes, some have no shape: each of their fields is a key.
CLASSES = {**vars(drift), **vars(report), **vars(model), **vars(plan)}


def objects(schema: Any) -> Iterator[frozenset[str]]:
    """Yield the keys of each object that a schema describes."""
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield frozenset(schema["properties"])
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(below)


@pytest.mark.parametrize("name", SHAPED)
def test_each_dataclass_is_an_object_of_its_schema(name: str) -> None:
    described = set(objects(json.loads(find_schema(name).read_text(encoding="utf-8"))))
    for kind in SHAPED[name].split():
        shape = SHAPES.get(kind) or " ".join(field.name for field in fields(CLASSES[kind]))
        keys = frozenset(key.partition("=")[0] for key in shape.split())
        assert any(keys <= each and each - keys <= ADDED for each in described), kind


def test_each_shape_belongs_to_a_schema() -> None:
    assert set(SHAPES) <= set(" ".join(SHAPED.values()).split())
