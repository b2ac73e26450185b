"""Values of the command line that need no conversion get none.

Newer versions of Typer convert every value with pydantic, whose import takes longer than all the rest of
`--version`; even a default, or the text of an option that takes text. Where a value is what the command wants,
or is a path, a plain number or one of a few words that it takes, it is passed on; everything else is left to
Typer, and so is whatever is wrong.
"""

import os
import re
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

PLAIN = (str, bool, int, float)
NUMBERS = {
    int: re.compile(r"0|[1-9][0-9]{0,8}"),
    float: re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?"),
}
# What an option that takes any path says of it; where another one wants more, Typer looks.
ANY_PATH: dict[str, object] = {
    "exists": False,
    "file_okay": True,
    "dir_okay": True,
    "writable": False,
    "resolve_path": False,
    "allow_dash": False,
    "path_type": None,
    "parser": None,
}


class Ready:
    """Takes the place of a parameter's conversion, and calls for it when it is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command takes it."""
        annotation = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _is_one(value, annotation):
            return value
        if isinstance(value, str) and (read := _read(value, param.type_descriptor)) is not None:
            return read
        if get_origin(annotation) is list and isinstance(value, tuple | list):
            (inner,) = get_args(annotation)
            if all(_is_one(item, inner) for item in value):
                return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def pass_ready_values(command: Any) -> Any:
    """Let the parameters of a command, `--help` among them, and of those below it pass values that are ready."""
    given = command.get_params
    command.get_params = lambda context: ready(given(context))
    for below in getattr(command, "commands", {}).values():
        pass_ready_values(below)
    return command


def ready(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "_runtime_param", params) is None:  # a version of Typer that works this way
            param._runtime_param = Ready()
    return params


def _read(text: str, descriptor: Any) -> object | None:
    """Read a path, a plain number within its limits, or a word of a list; None for anything else."""
    kind, limits = descriptor.annotation, descriptor.parameter_info
    if kind is Path:
        wanted = {name: getattr(limits, name) for name in ANY_PATH}
        return Path(text) if wanted == ANY_PATH and not _is_unreadable(Path(text)) else None
    if kind in NUMBERS and NUMBERS[kind].fullmatch(text):
        number = kind(text)
        fits = (limits.min is None or number >= limits.min) and (limits.max is None or number <= limits.max)
        return number if fits else None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((member for member in kind if member.value == text), None)
    return None


def _is_unreadable(path: Path) -> bool:
    """Say whether there is something that this user may not read: Typer says so in a sentence."""
    try:
        path.stat()
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def _is_one(value: object, annotation: object) -> bool:
    if not isinstance(annotation, type):
        return False
    if annotation is Path:
        return isinstance(value, Path)
    return type(value) is annotation and (annotation in PLAIN or issubclass(annotation, Enum))
