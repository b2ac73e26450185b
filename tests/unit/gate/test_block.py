"""The files of a gate's blocks: their head names what is filled in, and nothing is filled in unasked."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from pipestate.gate.block import filled

BLOCKS = sorted((files("pipestate.gate") / "blocks").iterdir(), key=str)


@pytest.mark.parametrize("file", BLOCKS, ids=lambda file: str(file.name))
def test_the_head_names_what_is_filled_in(file: Traversable) -> None:
    text = file.read_text(encoding="utf-8")
    head, body = (set(re.findall(r"<<(\w+)>>", part)) for part in split(text))
    assert head == body != set()


def split(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def test_a_value_is_not_read_as_a_name() -> None:
    """A check may compare with `<<`: what is filled in is data."""
    values = {
        "passed": "'<<tables>> \\1'",
        "tables": "'orders'",
        "not_locked": "false",
        "broken_off": "RETURN;",
    }
    assert "IS DISTINCT FROM '<<tables>> \\1'" in filled("after_first_pass", **values)


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="broken_off"):
        filled("after_first_pass", passed="''", tables="''", not_locked="false")
