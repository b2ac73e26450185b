"""Whose chain: an Alembic project, found and described without Alembic and without importing its code.

A project is named by an option (`--config`, `--scripts`, `--shipped`) or by ALEMBIC_CONFIG, else it is the one of
the current directory. Outside a project nothing is guessed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.chain.configuration import PYPROJECT, Configuration, read_configuration
from pipestate.chain.location import script_directory, version_directories
from pipestate.chain.pyproject import read_pyproject
from pipestate.config import shipped_root
from pipestate.errors import ConfigError
from pipestate.runbook.find import runbook_directory

HOW_TO_NAME_A_PROJECT = (
    "go to the project's directory, or name it with --config INI (ALEMBIC_CONFIG) or --scripts DIR; "
    "--shipped means the chain that comes with pipestate"
)


@dataclass(frozen=True, slots=True)
class Named:
    """How a project was named on the command line."""

    config: Path | None = None
    section: str | None = None
    scripts: Path | None = None
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """An Alembic project: its configuration, the directory of its env.py, and those of its revisions.

    Without a configuration only the scripts were named.
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
        return runbook_directory(self.config, self.scripts)

    def option(self, name: str) -> str | None:
        """Return an option of Alembic's section."""
        return self.configuration.option(name) if self.configuration else None

    def lines(self, section: str) -> Mapping[str, str]:
        """Return the lines of another section of the ini as they are written."""
        return self.configuration.lines(section) if self.configuration else {}


def find_project(named: Named, environ: Mapping[str, str] | None = None) -> Project:
    """Find the project that is meant; ConfigError with how to name one where there is none."""
    environ = os.environ if environ is None else environ
    if sum(map(bool, (named.config, named.scripts, named.shipped))) > 1:
        raise ConfigError("--config, --scripts and --shipped each name a project: give one of them")
    if named.scripts is not None:
        return _of_scripts(named.scripts, named)
    if named.shipped:
        return _of_file(shipped_root() / "alembic.ini", named)
    if named.config is not None:
        return _of_file(_existing(named.config, "--config"), named)
    if given := environ.get("ALEMBIC_CONFIG", "").strip():
        return _of_file(_existing(Path(given), "ALEMBIC_CONFIG"), named)
    if Path("alembic.ini").is_file():
        return _of_file(Path("alembic.ini"), named)
    if read_pyproject(Path(PYPROJECT)) is not None:
        return _of_file(Path(PYPROJECT), named)
    raise ConfigError(f"there is no alembic.ini here: {HOW_TO_NAME_A_PROJECT}")


def _existing(path: Path, source: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"there is no {path}: {source} takes the path of an alembic.ini or a {PYPROJECT}")
    return path


def _of_file(path: Path, named: Named) -> Project:
    configuration = read_configuration(path, named.section)
    scripts = script_directory(configuration)
    versions = version_directories(configuration, scripts)
    return Project(configuration, scripts, versions, configuration.flag("recursive_version_locations"), named)


def _of_scripts(directory: Path, named: Named) -> Project:
    if named.section is not None:
        raise ConfigError("--name is a section of an alembic.ini, and --scripts names a project without one")
    if not directory.is_dir():
        raise ConfigError(
            f"there is no directory {directory}: --scripts takes the one of the project's env.py"
        )
    return Project(None, directory, (directory / "versions",), named=named)
