"""The files of a chain as hashes: what was rehearsed is exactly what will run, or it was not rehearsed."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LENGTH = 32  # of the hash, in hexadecimal digits


def hash_files(paths: Mapping[str, Path]) -> dict[str, str]:
    """Hash each revision's file, by its revision; one that cannot be read has none."""
    return {revision: _hash(path) for revision, path in sorted(paths.items()) if path.is_file()}


def _hash(path: Path) -> str:
    status = path.stat()
    return _hash_once(path, status.st_mtime_ns, status.st_size)


@cache
def _hash_once(path: Path, _modified: int, _size: int) -> str:
    """Read a file once, as long as it stays what it is: a fleet asks for it a thousand times."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:LENGTH]
