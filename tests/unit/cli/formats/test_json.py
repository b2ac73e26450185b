"""The keys that JSON gets from dataclasses are those that the shipped schemas describe."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pipestate.cli.formats.json import SHAPES
from support.documentation import find_schema

# Keys that are no attribute: constants, the reason of a failed run, and facts of the whole rehearsal.
ADDED = {"schema_version", "kind", "ok", "error", "noise", "oldest_transaction_s"}
SHAPED = {
    "verify": "Report RunbookReport PhaseReport Verdict",
    "plan": "ChainPlan PlannedRevision GateState",
    "history": "Entry",
    "status": "Status SoftDropped RunbookStatus PhaseStatus Shown Soak SignOffStatus FailedCheck Observed Forced RecordedRehearsal "
    "Drift Difference",
    "fleet": "Answer PhaseFound TenantUpgrade Fleet Group Tenant",
    "rehearse": "Rehearsal RevisionImpact TableImpact Return",
}


def objects(schema: Any) -> Iterator[frozenset[str]]:
    """Yield the keys of each object that a schema describes."""
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield frozenset(schema["properties"])
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(below)


@pytest.mark.parametrize("name", SHAPED)
def test_each_shape_is_an_object_of_its_schema(name: str) -> None:
    described = set(objects(json.loads(find_schema(name).read_text(encoding="utf-8"))))
    for kind in SHAPED[name].split():
        keys = frozenset(key.partition("=")[0] for key in SHAPES[kind].split())
        assert any(keys <= each and each - keys <= ADDED for each in described), kind


def test_each_shape_belongs_to_a_schema() -> None:
    assert set(SHAPES) == set(" ".join(SHAPED.values()).split())
