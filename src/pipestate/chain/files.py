"""The files of a chain as hashes: what was rehearsed is exactly what will run, or it was not rehearsed."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

LENGTH = 32  # of the hash, in hexadecimal digits


def hash_files(paths: Mapping[str, Path]) -> dict[str, str]:
    """Hash each revision's file, by its revision; one that cannot be read has none."""
    return {revision: _hash(path) for revision, path in sorted(paths.items()) if path.is_file()}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:LENGTH]
