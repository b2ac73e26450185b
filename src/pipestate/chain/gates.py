"""Which gates a revision asks, read from its syntax: calls of `gate` and `Contract` on the way up."""

import ast
import re

from pipestate.chain.literals import Names, bound, literal

ASKING = ("gate", "Contract")
_WORDS = re.compile(rb"\b(?:gate|Contract)\b")


def may_ask(source: bytes) -> bool:
    """Tell whether a file has to be looked through at all: most revisions ask no gate."""
    return b"pipestate" in source and _WORDS.search(source) is not None


def gates_of(tree: ast.Module) -> tuple[str, ...]:
    """List the phases that a revision asks; each must be a literal or a constant of the module.

    What only its downgrade calls does not count.
    """
    calls: list[ast.Call] = []
    aliases: dict[str, str] = {}
    for statement in tree.body:
        down = isinstance(statement, ast.FunctionDef) and statement.name == "downgrade"
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and not down:
                calls.append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                aliases |= _imported(node)
    names = bound(tree.body)
    found = (_phase(call, names) for call in calls if _asks(call.func, aliases))
    return tuple(dict.fromkeys(phase for phase in found if phase is not None))


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """What an import calls things: `g` is `pipestate.gate.gate` after `from pipestate.gate import gate as g`."""
    if isinstance(node, ast.ImportFrom):
        module = "" if node.level else node.module or ""
        return {name.asname or name.name: f"{module}.{name.name}" for name in node.names}
    whole = {name.asname: name.name for name in node.names if name.asname}
    return whole | {
        first: first for name in node.names if not name.asname for first in name.name.split(".")[:1]
    }


def _asks(function: ast.expr, aliases: dict[str, str]) -> bool:
    """Tell whether a call is one of pipestate's own functions, under whatever name it was imported."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    if not isinstance(function, ast.Name) or function.id not in aliases:
        return False
    package, *middle = [*aliases[function.id].split("."), *parts]
    return package == "pipestate" and bool(middle) and middle[-1] in ASKING


def _phase(call: ast.Call, names: Names) -> str | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "phase"), None)
    value = literal(call.args[0] if call.args else named, names)
    return value if isinstance(value, str) else None
