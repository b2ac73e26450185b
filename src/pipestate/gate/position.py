"""Where a database stands, as Alembic's own context says it."""

from pathlib import Path

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
