"""One number in a JSON document, and the path that leads to it.

A path is names and places, with dots between them: `count`, `$.data.result[0].value[1]`, `$["a name"][0]`. A list
counts as its length, a text that is a number as that number.
"""

import json
import re
from typing import Any

from pipestate.errors import ConfigError, Unreachable

Path = tuple[str | int, ...]
_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"'$\s]+)|\[(?P<place>\d+)\]|\[(?P<quote>["'])(?P<quoted>.*?)(?P=quote)\]"""
)
_KINDS = {dict: "an object", str: "a text", bool: "true or false", type(None): "null"}


def parse_path(text: str) -> Path:
    """Read a path; an empty one, or `$`, is the document itself.

    >>> parse_path("$.data.result[0]['a.b']"), parse_path("items.0"), parse_path("$")
    (('data', 'result', 0, 'a.b'), ('items', '0'), ())
    """
    rest, path = text.strip().removeprefix("$"), []
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise ConfigError(f"path={text}: write names and places, such as count or $.data.result[0].value")
        step = found["name"] or found["quoted"]
        path.append(int(found["place"]) if step is None else step)
        rest = rest[found.end() :]
    return tuple(path)


def number_at(document: bytes, path: Path) -> float:
    """Find the number in a document; Unreachable with what is there instead."""
    try:
        value: Any = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise Unreachable("the answer is no JSON") from error
    for number, step in enumerate(path, 1):
        value = _child(value, step, _shown(path[:number]))
    return _number(value, _shown(path))


def _child(value: Any, step: str | int, place: str) -> Any:
    if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
        return value[int(step)]
    if isinstance(value, dict) and str(step) in value:
        return value[str(step)]
    raise Unreachable(f"the answer has no {place}")


def _number(value: Any, place: str) -> float:
    if isinstance(value, list):
        return float(len(value))
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise Unreachable(
        f"there is no number at {place} of the answer: it is {_KINDS.get(type(value), 'no number')}"
    )


def _shown(path: Path) -> str:
    """
    >>> _shown(("data", 0, "a b"))
    '$.data[0]["a b"]'
    """
    steps = (f"[{step}]" if isinstance(step, int) else _name(step) for step in path)
    return "$" + "".join(steps)


def _name(step: str) -> str:
    return f".{step}" if re.fullmatch(r"[\w-]+", step) else f"[{json.dumps(step)}]"
