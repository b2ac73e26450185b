"""Where a database stands, as Alembic's own context says it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from alembic.util import CommandError

from pipestate.chain.position import Position
from pipestate.errors import ConfigError


def resolve(script: ScriptDirectory, heads: tuple[str, ...]) -> Position:
    """Make a position of the revisions that the version table holds."""
    try:
        paths = {str(revision.revision): Path(revision.path) for revision in script.walk_revisions()}
        applied = frozenset(
            revision.revision for revision in script.iterate_revisions(heads, "base") if heads
        )
    except CommandError as error:
        raise ConfigError(
            f"the database is at revision {' '.join(heads)}, which this project does not have: "
            "name the right alembic.ini"
        ) from error
    at, head = " ".join(heads) or None, " ".join(sorted(script.get_heads())) or None
    return Position(frozenset(paths), applied, at, head, paths)


def resolve_below(script: ScriptDirectory, revision: str) -> Position:
    """Make the position of a script, which starts below its revision: what that one stands or depends on is applied."""
    known = resolve(script, ())
    below = _related(script, revision, script.revision_map._get_ancestor_nodes)
    found = script.get_revision(revision)
    before = found.down_revision if found is not None else None
    at = before if isinstance(before, str) else " ".join(before or ()) or None
    return Position(known.known, below - {revision}, at, known.head, known.paths)


def beside(script: ScriptDirectory, revision: str) -> frozenset[str]:
    """List the revisions of other branches: neither below this one nor above it."""
    every = frozenset(str(each.revision) for each in script.walk_revisions())
    below = _related(script, revision, script.revision_map._get_ancestor_nodes)
    above = _related(script, revision, script.revision_map._get_descendant_nodes)
    return every - below - above


def _related(
    script: ScriptDirectory, revision: str, nodes: Callable[[list[Any]], Iterable[Any]]
) -> frozenset[str]:
    return frozenset(str(each.revision) for each in nodes([script.get_revision(revision)]))
