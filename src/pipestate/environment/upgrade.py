"""Upgrading from inside pipestate: for `verify --apply-migration`."""

import sys
from collections.abc import Collection
from pathlib import Path

from alembic import command
from alembic.util import CommandError
from sqlalchemy import URL

from pipestate.chain.revisions import project_config, script_directory
from pipestate.ddl.failure import MigrationError
from pipestate.errors import ConfigError, Unreachable


def last_ungated(ini: Path, gated: Collection[str]) -> str | None:
    """The last revision, from the base on, before the first that is gated."""
    last = None
    for revision in reversed(list(script_directory(project_config(ini)).walk_revisions())):
        if revision.revision in gated:
            return last
        last = revision.revision
    return last


def upgrade_to_gate(url: URL, ini: Path, gated: Collection[str]) -> None:
    """Alembic's own upgrade, on this database, up to there. What it prints goes to stderr."""
    revision = last_ungated(ini, gated)
    if revision is None:
        return
    config = project_config(ini)
    config.print_stdout = _to_stderr  # type: ignore[method-assign]
    config.attributes["pipestate_url"] = url
    config.set_main_option("sqlalchemy.url", url.render_as_string(hide_password=False).replace("%", "%%"))
    try:
        command.upgrade(config, revision)
    except MigrationError as error:
        error.exit_code = Unreachable.exit_code  # nothing could be evaluated
        raise
    except CommandError as error:
        raise ConfigError(str(error)) from error


def _to_stderr(text: str, *arguments: object) -> None:
    print(text % arguments if arguments else text, file=sys.stderr)
