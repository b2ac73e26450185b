"""Where runbooks are found: the shipped ones by name, a project's own by name or path."""

import re
from collections.abc import Sequence
from pathlib import Path

from pipestate.config import project_root
from pipestate.errors import ConfigError
from pipestate.runbook.files import is_beside
from pipestate.runbook.lint import load
from pipestate.runbook.model import Runbook


def runbook_directory(ini: Path) -> Path:
    """The directory `runbooks/` beside the project's alembic.ini, else the shipped one."""
    beside = ini.resolve().parent / "runbooks"
    return beside if beside.is_dir() else project_root() / "runbooks"


def runbook_files(ini: Path) -> list[Path]:
    return sorted(path for path in runbook_directory(ini).glob("*.md") if not is_beside(path))


def find_runbooks(names: Sequence[str], ini: Path) -> list[Runbook]:
    """Those that are named (a name or a path); without names, the default ones. Linted: safe to run."""
    if names:
        return [load(_path(name, ini)) for name in names]
    runbooks = [load(_relative(path)) for path in runbook_files(ini) if _is_default(path)]
    if not runbooks:
        raise ConfigError(f"no runbook in {runbook_directory(ini)} has `default: true`: name one")
    return runbooks


def every_runbook(ini: Path) -> list[Runbook]:
    return [load(_relative(path)) for path in runbook_files(ini)]


def _is_default(path: Path) -> bool:
    """A look at the front matter only: the others need not be read to be left out."""
    head = path.read_text(encoding="utf-8", errors="replace").split("\n---", 1)[0]
    return re.search(r"^default:\s*true\s*(#.*)?$", head, re.MULTILINE) is not None


def _path(name: str, ini: Path) -> Path:
    path = Path(name)
    if path.suffix == ".md" or path.is_file():
        return path
    named = runbook_directory(ini) / f"{name}.md"
    if not named.is_file():
        known = ", ".join(file.stem for file in runbook_files(ini)) or "none"
        raise ConfigError(
            f"there is no runbook {name}; there are {known}, and a path to a .md file works too"
        )
    return _relative(named)


def _relative(path: Path) -> Path:
    """As people would write it from here: that is what messages and reports show."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path
