"""Paths as people read them, and files that are replaced as a whole."""

import os
from contextlib import suppress
from pathlib import Path


def from_here(path: Path) -> Path:
    """Return the path as somebody would write it from here: that is what messages and reports show."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def replace_text(path: Path, text: str, *, encoding: str = "utf-8") -> None:
    """Write a file so that a reader sees the old text or the new one, and never a part of either.

    The new file lies beside the old one until it takes its place, under a name that ends otherwise: whoever
    collects files by their ending does not find it. What is no file (a pipe, /dev/stdout) is written as it is.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding=encoding)
        return
    target = path.resolve()  # a symbolic link stays one
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
