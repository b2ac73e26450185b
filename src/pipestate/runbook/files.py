"""The files of a runbook: its page, and beside it the variants that SQLite needs, `orders.sqlite.md`."""

from collections.abc import Iterable
from pathlib import Path

from pipestate.errors import ConfigError, RunbookError

SUFFIX = ".sqlite.md"


def beside(page: str | Path) -> str:
    """Name the file in which a page's SQLite variants stand.

    >>> beside("runbooks/orders.md")
    'runbooks/orders.sqlite.md'
    """
    return str(page).removesuffix(".md") + SUFFIX


def is_beside(path: str | Path) -> bool:
    """Tell whether a file holds variants, and so is no runbook of its own."""
    return str(path).endswith(SUFFIX)


def page_of(path: str | Path) -> Path:
    """Name the page to which a file belongs: itself, unless it holds variants.

    >>> str(page_of("runbooks/orders.sqlite.md"))
    'runbooks/orders.md'
    """
    return Path(str(path).removesuffix(SUFFIX) + ".md") if is_beside(path) else Path(path)


def pages_of(paths: Iterable[Path]) -> list[Path]:
    """Name the pages of these files, each once; variants without a page stand for themselves."""
    return list(dict.fromkeys(page if (page := page_of(path)).is_file() else path for path in paths))


def without_page(directory: Path) -> list[Path]:
    """List variants whose page is not there: nothing would ever read them."""
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if not page_of(path).is_file())


def read_text(path: str | Path) -> str:
    """Read a file's text exactly as it is, byte order mark and line ends included."""
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
    """Read the text of the page's variants; None where it has none."""
    path = Path(beside(page))
    return read_text(path) if path.is_file() else None
