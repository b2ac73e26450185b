"""Reading a chain from its files, without importing them: the project's packages need not be installed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pipestate.chain.gates import gates_of, may_ask
from pipestate.chain.graph import Chain, Revision, make_chain
from pipestate.chain.literals import UNKNOWN, bound, literal, parse, read_source
from pipestate.chain.project import Project
from pipestate.errors import ConfigError

# As Alembic has it: editors' locks and packages are no revisions; of old, a file's name could be its id.
_REVISION_FILE = re.compile(r"(?!\.\#|__init__).*\.py")
_OLD_NAME = re.compile(r"([a-f0-9]+)\.py")
_ILLEGAL = "@-+:"


def read_chain(project: Project) -> Chain:
    """Read all revisions of a project; ConfigError with file and line where they do not make a chain."""
    return make_chain([read_revision(path) for path in revision_files(project)])


def revision_files(project: Project) -> list[Path]:
    """List the files in which Alembic would look for revisions, each once."""
    found: dict[Path, Path] = {}
    for directory in project.versions:
        for path in _listed(directory, recursive=project.recursive):
            if _REVISION_FILE.fullmatch(path.name):
                found.setdefault(path.resolve(), path)
    return list(found.values())


def read_revision(path: Path) -> Revision:
    """Read one revision from the syntax of its file."""
    source = read_source(path)
    tree = parse(source, path)
    names = bound(tree.body)
    line = _line_of("revision", tree)
    return Revision(
        _id(path, line, names),
        _down(path, line, names),
        _several(path, line, "depends_on", names),
        _several(path, line, "branch_labels", names),
        _title(tree),
        path,
        line,
        gates_of(tree) if may_ask(source) else (),
    )


def _listed(directory: Path, *, recursive: bool) -> Iterator[Path]:
    if not directory.is_dir():
        return
    entries = sorted(directory.iterdir())
    yield from (entry for entry in entries if entry.is_file())
    if recursive:
        for entry in entries:
            if entry.is_dir() and not entry.name.endswith("__pycache__"):
                yield from _listed(entry, recursive=True)


def _id(path: Path, line: int, names: dict[str, ast.expr | None]) -> str:
    if "revision" not in names:
        if old := _OLD_NAME.fullmatch(path.name):
            return old[1]
        raise ConfigError(
            f"{path}:{line}: there is no `revision` in this file, and Alembic wants one in every file of its "
            "versions: move other files elsewhere"
        )
    value = literal(names["revision"], names)
    if not isinstance(value, str) or not value or set(value) & set(_ILLEGAL):
        raise ConfigError(f"{path}:{line}: `revision` is no literal that Alembic takes: write the id itself")
    return value


def _down(path: Path, line: int, names: dict[str, ast.expr | None]) -> tuple[str, ...]:
    if "down_revision" not in names:
        raise ConfigError(
            f"{path}:{line}: there is no `down_revision` in this file: add it, None for the first"
        )
    return _several(path, line, "down_revision", names)


def _several(path: Path, line: int, name: str, names: dict[str, ast.expr | None]) -> tuple[str, ...]:
    """Read a name that holds None, one string or several."""
    value = literal(names[name], names) if name in names else None
    if value is None:
        return ()
    items = value if isinstance(value, tuple) else (value,)
    texts = tuple(item for item in items if isinstance(item, str))
    if value is UNKNOWN or len(texts) != len(items):
        raise ConfigError(f"{path}:{line}: `{name}` is no literal: write the ids themselves")
    return texts


def _title(tree: ast.Module) -> str:
    lines = (ast.get_docstring(tree) or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def _line_of(name: str, tree: ast.Module) -> int:
    for statement in tree.body:
        for node in ast.walk(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
                return node.lineno
    return 1
