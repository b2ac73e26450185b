"""Write a file as a whole: whoever reads it meanwhile sees the old one or the new one, never a part."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from pipestate.errors import ConfigError, Unreachable


def write_whole(path: Path, text: str) -> None:
    """Write beside the file, then put it in its place; a link stays one. What stops it is one sentence."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(
                text, encoding="utf-8"
            )  # a device or a pipe; of a directory the system says what is wrong
            return
        _replace(path.resolve(), text)
    except OSError as error:
        hint = ": make that directory first" if not path.parent.exists() else ""
        kind = Unreachable if error.errno in (errno.ENOSPC, errno.EDQUOT) else ConfigError
        raise kind(f"cannot write {path}: {error.strerror}{hint}") from error


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
