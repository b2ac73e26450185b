"""Upgrading from inside pipestate, through the project's own env.py: as far as the gates let it.

Each stretch of the chain is a run of its own. So a closed gate takes nothing back with it, whatever the project's
transactions are; what does not stand behind it goes on.
"""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NoReturn

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL

from pipestate import db
from pipestate.chain.graph import Chain, Revision
from pipestate.chain.project import Project
from pipestate.chain.stretch import ends, next_stretch
from pipestate.chain.version_table import Locator
from pipestate.config import as_env_py_wants
from pipestate.ddl.failure import MigrationError
from pipestate.environment.engine import engine_of
from pipestate.environment.same_database import only_on
from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.gate.closed import GateClosed
from pipestate.interrupt import hand_back


@dataclass(frozen=True, slots=True)
class Climb:
    """A project's chain, a database, and the revisions that ask a gate."""

    url: URL
    project: Project
    chain: Chain
    locate: Locator
    gated: frozenset[str]


@dataclass(slots=True)
class Climbed:
    """What an upgrade did: the revisions that it applied, and the closed gates with why they are closed."""

    before: str | None
    after: str | None = None
    applied: list[str] = field(default_factory=list)
    closed: dict[str, GateClosed] = field(default_factory=dict)


def climb(on: Climb, wanted: Collection[str]) -> Climbed:
    """Upgrade to the wanted revisions; at a closed gate go on with what does not stand behind it."""
    current, applied = _where(on)
    climbed = Climbed(current)
    config = alembic_config(on.project, on.url)
    while stretch := next_stretch(on.chain, applied, wanted, on.gated, climbed.closed):
        with only_on(on.url), _told():
            try:
                for target in ends(on.chain, stretch):
                    command.upgrade(config, target)
            except GateClosed as error:
                climbed.closed[error.revision] = error
        before = applied
        current, applied = _where(on)
        climbed.applied += [revision.id for revision in on.chain if revision.id in applied - before]
        if applied == before and not any(each.id in climbed.closed for each in stretch):
            _refuse_standstill(stretch)
    climbed.after = current
    return climbed


def climb_to_gates(on: Climb) -> None:
    """Upgrade to the last revisions before any gate, without asking one."""
    _, applied = _where(on)
    config = alembic_config(on.project, on.url)
    stretch = next_stretch(on.chain, applied, on.chain.heads, on.gated, on.gated)
    with only_on(on.url), _told():
        for target in ends(on.chain, stretch):
            command.upgrade(config, target)


def _where(on: Climb) -> tuple[str | None, frozenset[str]]:
    """Read where the database stands; a file that is not there yet is at its base."""
    if engine_of(on.url).is_new(on.url):
        return None, frozenset()
    with db.reader(on.url) as connection:
        position = on.locate(connection)
    return position.current, position.applied


@contextmanager
def _told() -> Iterator[None]:
    """Let env.py hear Ctrl-C as without us, and say what stopped a run, other than a closed gate, in our own errors."""
    hand_back()
    try:
        yield
    except MigrationError as error:
        error.exit_code = Unreachable.exit_code  # nothing could be evaluated
        raise
    except CommandError as error:
        raise ConfigError(str(error)) from error


def _refuse_standstill(stretch: Collection[Revision]) -> NoReturn:
    names = ", ".join(revision.id for revision in stretch)
    raise PipestateError(
        f"env.py ran, and {names} is not applied on the database that was named: does it call run_migrations()?"
    )


def alembic_config(project: Project, url: URL) -> Config:
    """Make the configuration that `alembic -c ... -n ...` would have; what Alembic prints goes to stderr."""
    configuration = project.configuration
    config = Config(str(configuration.ini.path) if configuration and configuration.ini else None)
    if configuration is not None:
        config.config_ini_section = configuration.section
        if configuration.toml is not None:
            config.toml_file_name = str(configuration.toml.path)
    config.set_main_option("script_location", str(project.scripts).replace("%", "%%"))
    config.print_stdout = _to_stderr  # type: ignore[method-assign]
    config.attributes["pipestate_url"] = url
    spelt = _url_for_env_py(project, url)
    config.set_main_option("sqlalchemy.url", spelt.render_as_string(hide_password=False).replace("%", "%%"))
    return config


def _url_for_env_py(project: Project, url: URL) -> URL:
    """Spell the URL with the project's own driver; an ini whose URL cannot be read leaves ours."""
    with suppress(ConfigError):
        return as_env_py_wants(url, project.option("sqlalchemy.url"))
    return url


def _to_stderr(text: str, *arguments: object) -> None:
    print(text % arguments if arguments else text, file=sys.stderr)
