"""Find and describe an Alembic project, without importing Alembic or the project's code.

An option (`--config`, `--scripts`, `--shipped`) or ALEMBIC_CONFIG names the project. The default is the
project of the current directory; outside a project the result is an error.
"""

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.urls import shipped_root
from pipestate.project.configuration import (
    PYPROJECT,
    Configuration,
    read_configuration,
    read_pyproject,
    script_directory,
    version_directories,
)

HOW_TO_NAME_A_PROJECT = (
    "go to the project's directory, or name it with --config INI (ALEMBIC_CONFIG) or --scripts DIR; "
    "--shipped means the migrations that come with pipestate"
)


@dataclass(frozen=True, slots=True)
class Named:
    """The options that named a project on the command line.

    `flask` is the directory of a project of Flask-Migrate: its env.py runs only inside its application.
    """

    config: Path | None = None
    section: str | None = None
    scripts: Path | None = None
    shipped: bool = False
    flask: Path | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """An Alembic project: its configuration, the directory of env.py, and the directories of revisions.

    `configuration` is None if only the scripts were named.
    """

    configuration: Configuration | None
    scripts: Path
    versions: tuple[Path, ...]
    recursive: bool = False
    named: Named = field(default_factory=Named)

    @property
    def config(self) -> Path | None:
        return self.configuration.path if self.configuration else None

    @property
    def runbooks(self) -> Path:
        from pipestate.runbook.files import runbook_directory

        return runbook_directory(self.config, self.scripts)

    def option(self, name: str) -> str | None:
        """Return an option of Alembic's section."""
        return self.configuration.option(name) if self.configuration else None

    def lines(self, section: str) -> Mapping[str, str]:
        """Return the lines of another section of the ini, unchanged."""
        return self.configuration.lines(section) if self.configuration else {}


def serves_application(words: Sequence[str] = ()) -> bool:
    """Tell whether the project that a command line names, else the current one, has the shipped migrations."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for names in (("-c", "--config"), ("--scripts",)):
        options.add_argument(*names, type=Path)
    options.add_argument("-n", "--name", dest="section")
    options.add_argument("--shipped", action="store_true")
    try:
        scripts = find_project(Named(**vars(options.parse_known_args(words)[0]))).scripts
    except (PipestateError, argparse.ArgumentError):
        return False
    wanted, there = (
        {path.name for path in (folder / "versions").glob("*.py")}
        for folder in (shipped_root() / "alembic", scripts)
    )
    return wanted <= there


def describe(project: Project) -> dict[str, str | bool | None]:
    """Describe the options that find a project, for another process."""
    named = project.named
    return {
        "config": str(project.config) if project.config and not named.shipped else None,
        "section": named.section,
        "scripts": str(named.scripts) if named.scripts else None,
        "shipped": named.shipped,
    }


def find_described(given: Mapping[str, Any]) -> Project:
    """Find the project from the result of `describe`."""
    config, scripts = (Path(given[name]) if given[name] else None for name in ("config", "scripts"))
    return find_project(Named(config, given["section"], scripts, given["shipped"]))


def find_project(named: Named, environ: Mapping[str, str] | None = None) -> Project:
    """Find the named or current project; ConfigError explains how to name one if none is found."""
    environ = os.environ if environ is None else environ
    if sum(map(bool, (named.config, named.scripts, named.shipped))) > 1:
        raise ConfigError("--config, --scripts and --shipped each name a project: give one of them")
    if named.scripts is not None:
        if named.section is not None:
            message = "--name is a section of an alembic.ini, and --scripts names a project without one"
            raise ConfigError(message)
        if not named.scripts.is_dir():
            raise ConfigError(
                f"there is no directory {named.scripts}: --scripts takes the directory of the project's env.py"
            )
        return Project(None, named.scripts, (named.scripts / "versions",), named=named)
    if named.shipped:
        return _of_file(shipped_root() / "alembic.ini", named)
    given = {"--config": named.config, "ALEMBIC_CONFIG": environ.get("ALEMBIC_CONFIG", "").strip()}
    for source, path in given.items():
        if path and not Path(path).is_file():
            known = f"an alembic.ini or a {PYPROJECT}"
            raise ConfigError(f"there is no {path}: {source} takes the path of {known}")
        if path:
            return _of_file(Path(path), named)
    if Path("alembic.ini").is_file():
        return _of_file(Path("alembic.ini"), named)
    if read_pyproject(Path(PYPROJECT)) is not None:
        return _of_file(Path(PYPROJECT), named)
    raise ConfigError(f"there is no alembic.ini here: {HOW_TO_NAME_A_PROJECT}")


def _of_file(path: Path, named: Named) -> Project:
    configuration = read_configuration(path, named.section)
    scripts = script_directory(configuration)
    if configuration.option("script_location") is None:
        named = replace(named, flask=scripts)
    versions = version_directories(configuration, scripts)
    return Project(configuration, scripts, versions, configuration.flag("recursive_version_locations"), named)


# Command lines of pipestate and Alembic for a project and its database, used as next steps in messages.


@dataclass(frozen=True, slots=True)
class Calls:
    """The given options, repeated in command lines. `database` is a URL without its password."""

    named: Named = field(default_factory=Named)
    database: str | None = None

    def pipestate(self, command: str) -> str:
        """Return a command line of pipestate.

        >>> Calls(Named(shipped=True)).pipestate("gate readiness")
        'pipestate gate readiness --shipped'
        """
        named = self.named
        options = _option("--config", named.config) + _option("--name", named.section)
        options += _option("--scripts", named.scripts) + (["--shipped"] if named.shipped else [])
        return " ".join(["pipestate", command, *options, *_option("--database-url", self.database)])

    def alembic(self, command: str) -> str:
        """Return a command line of Alembic, or of Flask; only the shipped env.py accepts the URL as an option.

        If a URL was given, `pipestate upgrade` and `downgrade` stand in: Alembic would take the ini's database.

        >>> Calls(database="postgresql://db/shop").alembic("downgrade c3-1")
        'pipestate downgrade c3-1 --database-url postgresql://db/shop'
        >>> from pathlib import Path
        >>> Calls(Named(config=Path("db/alembic.ini"), section="sales")).alembic("upgrade head")
        'alembic -c db/alembic.ini -n sales upgrade head'
        >>> Calls(Named(flask=Path("db"))).alembic("upgrade head")
        'flask db upgrade head -d db'
        """
        named = self.named
        if named.flask is not None:
            directory = _option("-d", named.flask) if named.flask != Path("migrations") else []
            return " ".join(["flask db", command, *directory])
        if self.database and not named.shipped and command.startswith(("upgrade", "downgrade")):
            return self.pipestate(command)
        options = _option("-c", named.config) + _option("-n", named.section)
        if named.shipped:
            options += ["-c", '"$(pipestate --alembic-ini)"']
            options += _option("-x", f"url={self.database}" if self.database else None)
        return " ".join(["alembic", *options, command])

    def forced(self, direction: str) -> str:
        """Return the command line that gives a reason.

        >>> Calls().forced("upgrade"), Calls(Named(flask=Path("migrations"))).forced("upgrade")
        ('alembic -x force="reason" upgrade …', 'flask db upgrade -x force="reason" …')
        """
        if self.named.flask is not None:
            return f'flask db {direction} -x force="reason" …'
        return f'alembic -x force="reason" {direction} …'


def _option(name: str, value: os.PathLike[str] | str | None) -> list[str]:
    return [name, shlex.quote(os.fspath(value))] if value else []
