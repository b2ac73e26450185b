"""The keys that JSON gets from dataclasses are those that the shipped schemas describe."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipestate.cli.formats import fleet_lines, status
from pipestate.cli.formats import json as machine
from pipestate.cli.formats.json import Shapes

SHAPED: list[tuple[Path, Shapes]] = [
    (machine.SCHEMA, machine.SHAPES),
    (status.SCHEMA, status.SHAPES),
    (fleet_lines.SCHEMA, fleet_lines.SHAPES),
]
CONSTANT = {"schema_version", "kind"}


def objects(schema: Any) -> Iterator[frozenset[str]]:
    """Yield the keys of each object that a schema describes."""
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield frozenset(schema["properties"])
        yield frozenset(schema["properties"]) - CONSTANT
    for below in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(below)


@pytest.mark.parametrize(("schema", "shapes"), SHAPED, ids=[schema.name for schema, _ in SHAPED])
def test_each_shape_is_an_object_of_its_schema(schema: Path, shapes: Shapes) -> None:
    described = set(objects(json.loads(schema.read_text(encoding="utf-8"))))
    for kind, names in shapes.items():
        keys = frozenset(name.partition("=")[0] for name in names.split())
        if kind not in machine.SHAPES or shapes is machine.SHAPES:
            assert keys in described, kind.__name__
