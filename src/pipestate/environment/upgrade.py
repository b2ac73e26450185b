"""Upgrading from inside pipestate: for `verify --apply-migration`."""

import sys
from collections.abc import Collection

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL

from pipestate.chain.graph import Chain
from pipestate.chain.project import Project
from pipestate.ddl.failure import MigrationError
from pipestate.errors import ConfigError, Unreachable


def last_ungated(chain: Chain, gated: Collection[str]) -> str | None:
    """Return the last revision, from the base on, before the first that is gated."""
    last = None
    for revision in chain:
        if revision.id in gated:
            return last
        last = revision.id
    return last


def upgrade_to_gate(url: URL, project: Project, chain: Chain, gated: Collection[str]) -> None:
    """Run Alembic's own upgrade, on this database, up to there. What it prints goes to stderr."""
    revision = last_ungated(chain, gated)
    if revision is None:
        return
    config = alembic_config(project)
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


def alembic_config(project: Project) -> Config:
    """Make the configuration that `alembic -c ... -n ...` would have in the project's directory."""
    configuration = project.configuration
    config = Config(str(configuration.ini.path) if configuration and configuration.ini else None)
    if configuration is not None:
        config.config_ini_section = configuration.section
        if configuration.toml is not None:
            config.toml_file_name = str(configuration.toml.path)
    config.set_main_option("script_location", str(project.scripts).replace("%", "%%"))
    return config


def _to_stderr(text: str, *arguments: object) -> None:
    print(text % arguments if arguments else text, file=sys.stderr)
