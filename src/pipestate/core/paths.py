"""Paths for messages, and atomic replacement of files."""

import os
from contextlib import suppress
from pathlib import Path

from pipestate.core.text import plain


def from_here(path: Path) -> Path:
    """Return the path relative to the current directory, for messages and reports."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def shorter_path(path: str) -> str:
    """Return the relative path if it is shorter."""
    if not Path(path).is_absolute():
        return path
    return min(path, os.path.relpath(path), key=len)


def place(source: str) -> str:
    """Write a `path:line` with the shorter path.

    >>> place("runbooks/orders.md:15"), place("/elsewhere/orders.md:15")
    ('runbooks/orders.md:15', '/elsewhere/orders.md:15')
    """
    path, _, line = source.rpartition(":")
    return plain(f"{shorter_path(path)}:{line}" if path else source)


def replace_text(path: Path, text: str, *, encoding: str = "utf-8") -> None:
    """Replace a file atomically: a reader sees either the old text or the new one.

    The new file is written beside the old one, with another suffix, so that searches by suffix skip it.
    Pipes and devices such as /dev/stdout are written directly.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding=encoding)
        return
    target = path.resolve()  # keep a symbolic link
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding=encoding) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
