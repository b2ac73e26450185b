"""Values in a Python file, read from its syntax: literals, and constants of the module that stand for one.

Nothing of the file is executed. What cannot be read this way is UNKNOWN, and the caller says so.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pipestate.errors import ConfigError


class Unknown:
    """The value of an expression that only running the file would tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
Names = Mapping[str, ast.expr | None]


def read_source(path: Path) -> bytes:
    """Read a file; ConfigError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def parse(source: bytes, path: Path) -> ast.Module:
    """Parse a Python file; ConfigError with file and line where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in somebody's string is not our business
            return ast.parse(source, str(path))
    except SyntaxError as error:
        what = f"this is no Python that {_python()} can read ({error.msg})"
        raise ConfigError(f"{path}:{error.lineno or 1}: {what}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:1: this is no Python that {_python()} can read") from error


def bound(body: list[ast.stmt]) -> dict[str, ast.expr | None]:
    """List the names that these statements bind, with the expression; None where it is not one plain value."""
    names: dict[str, ast.expr | None] = {}
    for statement in body:
        for name, value in _bindings(statement):
            names[name] = value
    return names


def literal(node: ast.expr | None, names: Names, *, depth: int = 0) -> object:
    """Evaluate a constant, a list or tuple of them, a sum of strings, or a name that stands for one."""
    if node is None or depth > 20:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return literal(names.get(node.id), names, depth=depth + 1)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = tuple(literal(item, names, depth=depth + 1) for item in node.elts)
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (literal(side, names, depth=depth + 1) for side in (node.left, node.right))
        return left + right if isinstance(left, str) and isinstance(right, str) else UNKNOWN
    return UNKNOWN


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value)
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is not None:
            yield from _assigned(statement.target, statement.value)
    elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        # In an `if`, a loop or a `try` it depends on more than the file; so does what is added to a value.
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, None


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        pairwise = len(parts) == len(target.elts)
        for number, part in enumerate(target.elts):
            if isinstance(part, ast.Name):
                yield part.id, parts[number] if pairwise else None


def _python() -> str:
    import sys

    return f"Python {sys.version_info.major}.{sys.version_info.minor}"
