"""The filter that keeps autogenerate away from what is pipestate's."""

import pytest

from pipestate.environment import include_name


@pytest.mark.parametrize(
    ("name", "kind", "schema", "included"),
    [
        ("pipestate", "schema", None, False),
        ("pipestate_archive", "schema", None, False),
        ("pipestates", "schema", None, True),
        (None, "schema", None, True),
        ("run", "table", "pipestate", False),
        ("orders", "table", "pipestate_archive", False),
        ("pipestate_run", "table", None, False),
        ("pipestate_object", "table", None, False),
        ("pipestate_archive_orders", "table", None, False),
        ("pipestate_settings", "table", None, True),
        ("run", "table", None, True),
        ("run", "column", None, True),
        ("orders", "table", "sales", True),
        ("_pipestate_3_1", "column", None, False),
        ("_pipestate_3_x1", "index", None, False),
        ("_pipestate_3_1", "table", "pipestate_archive", False),
        ("_pipestate", "column", None, True),
    ],
)
def test_only_what_is_pipestates_is_left_out(
    name: str | None, kind: str, schema: str | None, included: bool
) -> None:
    assert include_name(name, kind, {"schema_name": schema}) is included
