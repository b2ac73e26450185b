"""What lies in the archive, as lines."""

from collections.abc import Sequence

from pipestate.ddl.purge import Archived
from pipestate.render.machine import instant


def archived_as_lines(things: Sequence[Archived]) -> list[str]:
    return [
        f"{thing.table}: {thing.kind} {thing.name}, {thing.rows} rows, since {instant(thing.archived_at)}"
        for thing in things
    ]
