"""Where runbooks are found: in one directory of the project, by name, or anywhere by path."""

from collections.abc import Sequence
from pathlib import Path

from pipestate.errors import ConfigError
from pipestate.paths import from_here
from pipestate.runbook.files import is_beside
from pipestate.runbook.lint import load
from pipestate.runbook.model import Runbook
from pipestate.runbook.parse import may_be_default


def runbook_directory(config: Path | None, scripts: Path) -> Path:
    """Return `runbooks/` beside the project's configuration, else the one in its script directory."""
    beside = config.resolve().parent / "runbooks" if config is not None else None
    return from_here(beside if beside is not None and beside.is_dir() else scripts / "runbooks")


def runbook_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.md") if not is_beside(path))


def find_runbooks(names: Sequence[str], directory: Path) -> list[Runbook]:
    """Load those that are named, by name or by the path of a .md file; without names, the default ones."""
    if names:
        return [load(name) if name.endswith(".md") else named_runbook(name, directory) for name in names]
    runbooks = default_runbooks(directory)
    if not runbooks:
        raise ConfigError(f"no runbook in {directory} has `default: true`: name one, or write one there")
    return runbooks


def default_runbooks(directory: Path) -> list[Runbook]:
    """Load the pages that run by default; of the others no more than the front matter is read."""
    return [
        book for path in runbook_files(directory) if may_be_default(path) and (book := load(path)).default
    ]


def runbooks_at(address: str, directory: Path, *, below: int = 1) -> list[Runbook]:
    """Load the page that an address begins with, as `orders` of `orders/ready`; every page where it names none.

    `below` is how many names follow that of the page.
    """
    runbook, *names = address.split("/")
    return [named_runbook(runbook, directory)] if len(names) >= below else every_runbook(directory)


def named_runbook(name: str, directory: Path) -> Runbook:
    """Load a runbook by its name, from this directory and from nowhere else."""
    known = {path.stem: path for path in runbook_files(directory)}
    if name not in known:
        if not known:
            raise ConfigError(
                f"there is no runbook {name}, and none at all in {directory}: `pipestate init {name}` writes one"
            )
        there = ", ".join(known)
        raise ConfigError(
            f"there is no runbook {name}; there are {there}, and a path to a .md file works too"
        )
    return load(known[name])


def every_runbook(directory: Path) -> list[Runbook]:
    return [load(path) for path in runbook_files(directory)]
