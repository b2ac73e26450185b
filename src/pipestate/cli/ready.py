"""Values of the command line that need no conversion get none.

Newer versions of Typer convert every value with pydantic, whose import takes longer than all the rest of
`--version`; even a default, or the text of an option that takes text. Where a value is what the command wants,
it is passed on; everything else is left to Typer.
"""

from enum import Enum
from typing import Any, get_args, get_origin

PLAIN = (str, bool, int, float)


class Ready:
    """Takes the place of a parameter's conversion, and calls for it when it is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command takes it."""
        annotation = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _is_one(value, annotation):
            return value
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


def _is_one(value: object, annotation: object) -> bool:
    if not isinstance(annotation, type):
        return False
    return type(value) is annotation and (annotation in PLAIN or issubclass(annotation, Enum))
