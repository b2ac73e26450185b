"""Ledger in a chain: find the revisions that install or change it, from their syntax."""

import ast
from pathlib import Path

from pipestate.project.syntax import parse, read_source

INSTALL = "install_ledger"
CHANGING = (INSTALL, "remove_ledger", "remove_objects")


def installs_ledger(path: Path) -> bool:
    """Tell whether the upgrade of a revision installs the ledger."""
    return any(
        _called(statement.value) == INSTALL
        for function in _tree(path).body
        if isinstance(function, ast.FunctionDef) and function.name == "upgrade"
        for statement in function.body
        if isinstance(statement, ast.Expr)
    )


def changes_ledger(path: Path) -> bool:
    """Tell whether any function of a revision installs or removes the ledger."""
    return any(_called(node) in CHANGING for node in ast.walk(_tree(path)))


def _tree(path: Path) -> ast.Module:
    """Parse a file that mentions the ledger; other files and compiled ones (`sourceless`) count as empty."""
    source = b"" if path.suffix == ".pyc" else read_source(path)
    return parse(source, path) if any(name.encode() in source for name in CHANGING) else ast.Module([], [])


def _called(node: ast.AST) -> str | None:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", None) or getattr(function, "id", None)
