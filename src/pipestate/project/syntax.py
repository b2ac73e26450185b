"""Static evaluation of a Python file: literals, and module constants with literal values.

The file is never executed. Other values are UNKNOWN, and the caller reports them.
"""

import ast
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pipestate.core.errors import ConfigError


class Unknown:
    """The value of an expression that only execution of the file would reveal."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
Names = Mapping[str, ast.expr | None]


def read_source(path: Path) -> bytes:
    """Read a file; raise ConfigError if it is unreadable."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def parse(source: bytes, path: Path) -> ast.Module:
    """Parse a Python file; raise ConfigError with file and line for a syntax error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore invalid escapes in third-party strings
            return ast.parse(source, str(path))
    except SyntaxError as error:
        what = f"this is no Python that {_python()} can read ({error.msg})"
        raise ConfigError(f"{path}:{error.lineno or 1}: {what}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:1: this is no Python that {_python()} can read") from error


def bound(body: list[ast.stmt]) -> dict[str, ast.expr | None]:
    """Map the names that these statements bind to their expressions; None for other than one plain value."""
    names: dict[str, ast.expr | None] = {}
    for statement in body:
        for name, value in _bindings(statement):
            names[name] = value
    return names


def literal(node: ast.expr | None, names: Names, *, depth: int = 0) -> object:
    """Evaluate a constant, a list or tuple of them, a sum of strings, or a name bound to one.

    A mapping becomes a tuple of its pairs.
    """
    if node is None or depth > 20:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return literal(names.get(node.id), names, depth=depth + 1)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = tuple(literal(item, names, depth=depth + 1) for item in node.elts)
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return literal(
            ast.Tuple([ast.Tuple([key or node, value]) for key, value in pairs]), names, depth=depth + 1
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (literal(side, names, depth=depth + 1) for side in (node.left, node.right))
        return left + right if isinstance(left, str) and isinstance(right, str) else UNKNOWN
    return UNKNOWN


def called_name(node: ast.AST) -> str | None:
    """Return the name of the called function, without its module; None for other than a call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", None) or getattr(function, "id", None)


def imported_names(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Map imported names to their targets, as `g` to `pipestate.gate.gate` for `import gate as g`."""
    if isinstance(node, ast.ImportFrom):
        module = "" if node.level else node.module or ""
        return {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
    pairs = ((each.asname, each.name, each.name.split(".")[0]) for each in node.names)
    return {name or first: whole if name else first for name, whole, first in pairs}


class Imported(ast.NodeTransformer):
    """Replace names from imported modules with their constants: `cli.EXPAND_BRANCH` becomes 'expand'.

    A module is searched in the directories above the file, like in a checkout. It is read, never imported.
    """

    def __init__(self, tree: ast.Module, path: Path) -> None:
        self.path = path.resolve()
        self.names: dict[str, tuple[int, str]] = {}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                before = f"{node.module}." if node.module else ""
                for alias in node.names:
                    self.names[alias.asname or alias.name] = (node.level, f"{before}{alias.name}")
            elif isinstance(node, ast.Import):
                self.names |= {alias.asname: (0, alias.name) for alias in node.names if alias.asname}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._constant(node.id, "", node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return (
            self._constant(node.value.id, f".{node.attr}", node) if isinstance(node.value, ast.Name) else node
        )

    def _constant(self, name: str, attribute: str, node: ast.expr) -> ast.expr:
        level, target = self.names.get(name, (0, ""))
        module, _, constant = f"{target}{attribute}".rpartition(".")
        above = self.path.parents[level - 1 : level] if level else self.path.parents
        for directory in above if target else ():
            file = (
                directory.joinpath(*module.split(".")).with_suffix(".py")
                if module
                else directory / "__init__.py"
            )
            if file.is_file():
                names = bound(parse(read_source(file), file).body)
                value = literal(names.get(constant), names)
                return ast.Constant(value) if isinstance(value, str | None) else node
        return node


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value)
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is not None:
            yield from _assigned(statement.target, statement.value)
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0], None
    elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        # A value from an `if`, a loop, a `try` or an augmented assignment depends on more than the file.
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
