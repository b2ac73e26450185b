"""What lies in the archive, as lines."""

from collections.abc import Sequence

from pipestate.ddl.purge import Archived
from pipestate.plural import many
from pipestate.render.machine import instant


def archived_as_lines(things: Sequence[Archived]) -> list[str]:
    """Say what each thing was, how much it is, since when it is there, and where."""
    return [
        f"{_what(thing)}: {many(thing.rows, 'row')}, since {instant(thing.archived_at)}, in {thing.table}"
        for thing in things
    ]


def _what(thing: Archived) -> str:
    return f"columns of {thing.name}" if thing.kind == "columns" else f"{thing.kind} {thing.name}"
