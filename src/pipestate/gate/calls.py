"""How pipestate is called for the project that Alembic is running: for the advice of a closed gate."""

from pathlib import Path

from alembic.config import Config

from pipestate.chain.calls import Calls
from pipestate.chain.project import Named


def calls_of(config: Config | None) -> Calls:
    """Repeat the `-c` and `-n` of Alembic's command line; without one there is nothing to repeat."""
    options = getattr(config, "cmd_opts", None)
    given = getattr(options, "config", None) or []
    files = [given] if isinstance(given, str) else list(given)  # before Alembic 1.16 it was one
    section = getattr(options, "name", None)
    named = Named(
        config=Path(files[0]) if files else None,
        section=section if section not in (None, "alembic") else None,
    )
    return Calls(named)
