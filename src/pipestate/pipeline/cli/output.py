"""Print a result in one of the two ways that every command of the application has."""

from collections.abc import Callable, Iterable
from typing import Any

from pipestate.cli.output import print_json, say


def show(as_json: bool, data: Callable[[], Any], lines: Iterable[str]) -> None:
    """Print the data as JSON, or else the lines; only what is printed is made."""
    if as_json:
        print_json(data())
        return
    for line in lines:
        say(line)
