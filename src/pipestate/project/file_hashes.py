"""Hashes of the revision files: a rehearsal is valid only for the exact code that it ran.

The hash of a revision covers its file, env.py, and the project's modules that it imports, transitively.
A revision with an unresolvable import, such as one by a computed name, gets no hash.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipestate.project.syntax import called_name

LENGTH = 32  # hexadecimal digits of the hash
# Files that mark the directory of a project.
ROOTS = ("alembic.ini", "pyproject.toml", "setup.py", "setup.cfg", ".git")
NOT_OF_THE_PROJECT = frozenset(("alembic", "pipestate", "sqlalchemy")) | sys.stdlib_module_names
BY_NAME = frozenset(("import_module", "__import__"))
BY_PATH = frozenset(("run_module", "run_path", "spec_from_file_location"))


@dataclass(frozen=True, slots=True)
class Code:
    """The files that run for a revision; `unknown` is the reason if the list is incomplete."""

    files: tuple[Path, ...]
    unknown: str | None = None


def hash_files(paths: Mapping[str, Path]) -> dict[str, str]:
    """Hash the code of each revision, by revision id; omit revisions with unknown code."""
    hashes = {}
    for revision, path in sorted(paths.items()):
        if path.is_file() and (code := code_of(path)).unknown is None:
            together = "".join(sorted(hash_file(file) for file in code.files if file.is_file()))
            hashes[revision] = hashlib.sha256(together.encode()).hexdigest()[:LENGTH]
    return hashes


def code_of(path: Path) -> Code:
    """List the files that run for the revision in this file."""
    status = path.stat()
    return _code_once(path.resolve(), status.st_mtime_ns, status.st_size)


def hash_file(path: Path) -> str:
    """Hash one file with SHA-256, in hexadecimal digits."""
    status = path.stat()
    return _hash_once(path, status.st_mtime_ns, status.st_size)


@cache
def _hash_once(path: Path, _modified: int, _size: int) -> str:
    """Cache the hash of an unmodified file: a fleet requests it a thousand times."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _code_once(path: Path, _modified: int, _size: int) -> Code:
    above = list(path.parents)
    root = next((n for n, each in enumerate(above) if any((each / sign).exists() for sign in ROOTS)), 1)
    directories = above[: root + 1]
    env = _env_py(directories)
    if env is None:
        return Code(
            (path,), f"{path} has no env.py in the directories above it, or several beside each other"
        )
    found, left = {path, env}, [path]
    while left:
        file = left.pop()
        try:
            imported = {module for name in _imports(file) for module in _modules(name, path, directories)}
        except _ComputedImportError as error:
            return Code((path,), f"{file}:{error.line} loads code by a computed name")
        left += imported - found
        found |= imported
    return Code(tuple(sorted(found)))


def _env_py(directories: list[Path]) -> Path | None:
    for directory in directories:
        if (directory / "env.py").is_file():
            return directory / "env.py"
    for directory in directories:
        beside = sorted(directory.glob("*/env.py"))
        if beside:
            return beside[0] if len(beside) == 1 else None
    return None


class _ComputedImportError(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _imports(file: Path) -> Iterator[str]:
    """Yield the names of the modules that a file may import; relative ones as file paths."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # such a file cannot run
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = str(file.parents[node.level - 1]) if node.level else ""
            module = f"{base}:{node.module or ''}" if node.level else node.module or ""
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call):
            name = called_name(node)
            first = node.args[0] if node.args else None
            literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
            if name in BY_PATH or (name in BY_NAME and not literal):
                raise _ComputedImportError(node.lineno)
            if name in BY_NAME:
                yield ast.literal_eval(node.args[0])


def _modules(name: str, revision: Path, directories: list[Path]) -> Iterator[Path]:
    """Find the project's files of a module and of its parent packages."""
    base, _, dotted = name.rpartition(":")
    parts = [part for part in dotted.split(".") if part]
    if base:
        roots = [Path(base)]
    elif not parts or parts[0] in NOT_OF_THE_PROJECT:
        return
    else:
        # The package that contains the revision may be imported from any directory above it.
        packages = [each.parent for each in revision.parents if each.name == parts[0]]
        roots = [*directories, directories[-1] / "src", *packages]
    for root in roots:
        for length in range(len(parts) + 1):
            place = root.joinpath(*parts[:length])
            files = (place.with_suffix(".py") if length else place, place / "__init__.py")
            yield from (each for each in files if each.is_file() and (length or base))
