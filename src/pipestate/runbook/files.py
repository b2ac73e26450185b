"""Files of a runbook: `orders.md`, and its SQLite variants in `orders.sqlite.md`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipestate.core.errors import ConfigError, PipestateError, RunbookError
from pipestate.core.text import from_here
from pipestate.runbook.model import Runbook

SUFFIX = ".sqlite.md"


def beside(page: str | Path) -> str:
    """Return the path of a runbook's SQLite variants.

    >>> beside("runbooks/orders.md")
    'runbooks/orders.sqlite.md'
    """
    return str(page).removesuffix(".md") + SUFFIX


def is_beside(path: str | Path) -> bool:
    """Tell whether a file holds variants and is therefore not a runbook itself."""
    return str(path).endswith(SUFFIX)


def runbook_file(path: str | Path) -> Path:
    """Return the runbook of a file: the file itself, unless it holds variants.

    >>> str(runbook_file("runbooks/orders.sqlite.md"))
    'runbooks/orders.md'
    """
    return Path(str(path).removesuffix(SUFFIX) + ".md") if is_beside(path) else Path(path)


def all_runbook_files(paths: Iterable[Path]) -> list[Path]:
    """List the runbooks of these files, each once; variants without a runbook are listed themselves."""
    return list(dict.fromkeys(page if (page := runbook_file(path)).is_file() else path for path in paths))


def without_page(directory: Path) -> list[Path]:
    """List variants with a missing runbook: commands never read them."""
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if not runbook_file(path).is_file())


def read_text(path: str | Path) -> str:
    """Read the exact text of a file, including byte order mark and line ends."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read the runbook {path}: {reason}; give its name or its path") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte 0x{content[error.start]:02x}): save the file as UTF-8"
        raise RunbookError(str(path), line, what) from error


def read_beside(page: str | Path) -> str | None:
    """Read the text of a runbook's variants; return None if the file is missing."""
    path = Path(beside(page))
    return read_text(path) if path.is_file() else None


# Runbooks of a project: by name from one directory, or by path.


def load(path: Path | str) -> Runbook:
    """Load one runbook. The parser is imported here: a project without runbooks starts faster."""
    from pipestate.runbook.lint import load as load_page

    return load_page(path)


def runbook_directory(config: Path | None, scripts: Path) -> Path:
    """Return `runbooks/` beside the project's configuration, else the one in its script directory.

    A directory without runbooks is skipped if the other one has some.
    """
    within = scripts / "runbooks"
    beside = config.resolve().parent / "runbooks" if config is not None else within
    return from_here(next(filter(runbook_files, (beside, within)), beside if beside.is_dir() else within))


def runbook_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.md") if not is_beside(path))


def find_runbooks(names: Sequence[str], directory: Path) -> list[Runbook]:
    """Load runbooks by name or by the path of a .md file; without names, load the default ones."""
    if names:
        return [load(name) if name.endswith(".md") else named_runbook(name, directory) for name in names]
    runbooks = default_runbooks(directory)
    if not runbooks:
        raise ConfigError(f"no runbook in {directory} has `default: true`: name one, or write one there")
    return runbooks


def default_runbooks(directory: Path) -> list[Runbook]:
    """Load the default runbooks; only the front matter of the others is read."""
    from pipestate.runbook.parse import may_be_default

    return [
        book for path in runbook_files(directory) if may_be_default(path) and (book := load(path)).default
    ]


def runbooks_at(address: str, directory: Path, *, below: int = 1) -> list[Runbook]:
    """Load the runbook that an address begins with, as `orders` in `orders/ready`; else load every runbook.

    A faulty runbook that mentions the name is an error; others are left out.
    `below` is the number of names after the name of the runbook.
    """
    runbook, *names = address.split("/")
    if len(names) >= below:
        return [named_runbook(runbook, directory)]
    runbooks, faulty = readable_runbooks(directory)
    for path, error in faulty.items():
        if mentions(path, address.rpartition("/")[2]):
            raise error
    return runbooks


def named_runbook(name: str, directory: Path) -> Runbook:
    """Load a runbook by its name from this directory only."""
    known = {path.stem: path for path in runbook_files(directory)}
    if name not in known:
        if not known:
            raise ConfigError(
                f"there is no runbook {name}, and none at all in {directory}: `pipestate init {name}` writes "
                "one"
            )
        there = ", ".join(known)
        message = f"there is no runbook {name}; there are {there}, and a path to a .md file works too"
        raise ConfigError(message)
    return load(known[name])


def every_runbook(directory: Path) -> list[Runbook]:
    return [load(path) for path in runbook_files(directory)]


def readable_runbooks(directory: Path) -> tuple[list[Runbook], dict[Path, PipestateError]]:
    """Load every runbook without a fault; return the first fault of each other one."""
    runbooks, faulty = [], dict[Path, PipestateError]()
    for path in runbook_files(directory):
        try:
            runbooks.append(load(path))
        except PipestateError as error:
            faulty[path] = error
    return runbooks, faulty


def mentions(path: Path, word: str) -> bool:
    """Tell whether a word occurs in a file, in any encoding; a file that cannot be read may mention it."""
    try:
        text = path.read_bytes().replace(b"\0", b"").decode("utf-8", "replace")
    except OSError:
        return True
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
