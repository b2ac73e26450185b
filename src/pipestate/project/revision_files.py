"""Revision files: read gates and links from their syntax, without importing them."""

import ast
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipestate.core.errors import ConfigError
from pipestate.project.graph import Migrations, Revision, make_migrations
from pipestate.project.syntax import (
    UNKNOWN,
    Imported,
    bound,
    called_name,
    imported_names,
    literal,
    parse,
    read_source,
)

if TYPE_CHECKING:
    from pipestate.project.find import Project
    from pipestate.runbook.model import Phase, Runbook

GATE_CALLS = ("gate", "Contract")
_WORDS = re.compile(rb"\b(?:gate|Contract)\b")


def read_gates(path: Path) -> tuple[str, ...]:
    """Read the gates of a revision's file; compiled files (`sourceless`) count as files without gates."""
    source = b"" if path.suffix == ".pyc" else read_source(path)
    return gates_of(parse(source, path)) if may_have_gate(source) else ()


def may_have_gate(source: bytes) -> bool:
    """Tell whether a file may contain a gate and must be parsed: most revisions have none."""
    return b"pipestate" in source and _WORDS.search(source) is not None


def gates_of(tree: ast.Module) -> tuple[str, ...]:
    """List the phases that gate a revision; each must be a literal or a constant of the module.

    Calls made only by its downgrade are ignored.
    """
    names, found = bound(tree.body), dict[object, None]()
    for call in _calls(tree, GATE_CALLS):
        given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "phase")]
        found[literal(given[0], names) if given else None] = None
    return tuple(phase for phase in found if isinstance(phase, str))


def read_contracts(path: Path) -> list[tuple[dict[str, tuple[str, ...]], tuple[str, ...]]]:
    """Read the columns that the contracts of a file hide, by table, and the triggers that they drop.

    A contract whose columns or triggers are no literals is left out.
    """
    source = b"" if path.suffix == ".pyc" else read_source(path)
    tree = parse(source, path) if may_have_gate(source) else ast.Module([], [])
    names, found = bound(tree.body), []
    for call in _calls(tree, ("Contract",)):
        given = {each.arg: literal(each.value, names) for each in call.keywords}
        columns, triggers = given.get("columns", ()), given.get("drop_triggers", ())
        if isinstance(columns, tuple) and isinstance(triggers, tuple):
            found.append((dict(columns), triggers))
    return found


def _calls(tree: ast.Module, functions: Container[str]) -> list[ast.Call]:
    """List the calls of these functions of pipestate, except those made only by a downgrade."""
    calls: list[ast.Call] = []
    aliases: dict[str, str] = {}
    for statement in tree.body:
        down = isinstance(statement, ast.FunctionDef) and statement.name == "downgrade"
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and not down:
                calls.append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                aliases |= imported_names(node)
    return [call for call in calls if _is_one_of(functions, call.func, aliases)]


def _is_one_of(functions: Container[str], function: ast.expr, aliases: dict[str, str]) -> bool:
    """Tell whether a call is of one of these functions of pipestate, under any imported name."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    if not isinstance(function, ast.Name) or function.id not in aliases:
        return False
    package, *middle = [*aliases[function.id].split("."), *parts]
    return package == "pipestate" and bool(middle) and middle[-1] in functions


# Ledger in the migrations: find the revisions that install or change it.


INSTALL = "install_ledger"
CHANGING = (INSTALL, "remove_ledger", "remove_objects")


def installs_ledger(path: Path) -> bool:
    """Tell whether the upgrade of a revision installs the ledger."""
    return any(
        called_name(statement.value) == INSTALL
        for function in _ledger_tree(path).body
        if isinstance(function, ast.FunctionDef) and function.name == "upgrade"
        for statement in function.body
        if isinstance(statement, ast.Expr)
    )


def changes_ledger(path: Path) -> bool:
    """Tell whether any function of a revision installs or removes the ledger."""
    names = (
        getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(_ledger_tree(path))
    )
    return not set(CHANGING).isdisjoint(names)


def _ledger_tree(path: Path) -> ast.Module:
    """Parse a file that mentions the ledger; other files and compiled ones (`sourceless`) count as empty."""
    source = b"" if path.suffix == ".pyc" else read_source(path)
    return parse(source, path) if any(name.encode() in source for name in CHANGING) else ast.Module([], [])


# Read migrations from their files without importing them: the project's packages may be missing.


# Like Alembic, skip editors' lock files and packages; in old projects a file's name could be its id.
_REVISION_FILE = re.compile(r"(?!\.\#|__init__).*\.py")
_OLD_NAME = re.compile(r"([a-f0-9]+)\.py")
_ILLEGAL = "@-+:"
_PLACED = ("revision", "down_revision", "depends_on", "branch_labels")


def read_migrations(project: "Project") -> Migrations:
    """Read all revisions of a project; raise ConfigError with file and line if they are inconsistent."""
    return make_migrations([read_revision(path) for path in revision_files(project)])


def revision_files(project: "Project") -> list[Path]:
    """List the files that Alembic would search for revisions, each once."""
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
    placed = [name for name in _PLACED if name in names]
    if UNKNOWN in (literal(names[name], names) for name in placed):  # imported from a module of the project
        imported = Imported(tree, path)
        names |= {name: imported.visit(names[name] or ast.Name(name)) for name in placed}
    return Revision(
        _id(path, line, names),
        _several(path, line, "down_revision", names),
        _several(path, line, "depends_on", names),
        _several(path, line, "branch_labels", names),
        next(iter((ast.get_docstring(tree) or "").strip().splitlines()), "").strip(),
        path,
        line,
        gates_of(tree) if may_have_gate(source) else (),
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
            f"{path}:{line}: this file has no `revision`, which Alembic needs in each file of the versions "
            "directory: move other files elsewhere"
        )
    value = literal(names["revision"], names)
    if not isinstance(value, str) or not value or set(value) & set(_ILLEGAL):
        raise ConfigError(
            f"{path}:{line}: `revision` is not a literal that Alembic accepts: write the id itself as a string"
        )
    return value


def _several(path: Path, line: int, name: str, names: dict[str, ast.expr | None]) -> tuple[str, ...]:
    """Read a name with the value None, one string or several."""
    if name not in names and name == "down_revision":
        raise ConfigError(f"{path}:{line}: there is no `{name}` in this file: add it, None for the first")
    value = literal(names[name], names) if name in names else None
    if value is None:
        return ()
    items = value if isinstance(value, tuple) else (value,)
    texts = tuple(item for item in items if isinstance(item, str))
    if value is UNKNOWN or len(texts) != len(items):
        raise ConfigError(f"{path}:{line}: `{name}` is not a literal: write the ids themselves as strings")
    return texts


def _line_of(name: str, tree: ast.Module) -> int:
    for statement in tree.body:
        for node in ast.walk(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
                return node.lineno
    return 1


def has_gate_of(gates: Container[str], runbook: "Runbook", phase: "Phase") -> bool:
    """Tell whether one of these gates, read from a revision's file, belongs to the phase."""
    return phase.name in gates or f"{runbook.name}/{phase.name}" in gates
