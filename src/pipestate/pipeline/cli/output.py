"""Print a result in one of the two ways that every command of the application has."""

from collections.abc import Iterable
from typing import Any

from pipestate.cli.output import print_json, say


def show(as_json: bool, data: Any, lines: Iterable[str]) -> None:
    """Print the data as JSON, or else the lines; give lines as a generator, so that JSON does not make them."""
    if as_json:
        print_json(data)
        return
    for line in lines:
        say(line)
