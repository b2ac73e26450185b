"""Which gates a revision asks, read from its syntax: calls of `gate` and `Contract` on the way up."""

import ast
from collections.abc import Iterator

from pipestate.chain.literals import Names, bound, literal

ASKING = ("gate", "Contract")


def gates_of(tree: ast.Module) -> tuple[str, ...]:
    """List the phases that a revision asks; each must be a literal or a constant of the module."""
    names = bound(tree.body)
    aliases = _aliases(tree)
    found = (_phase(call, names) for call in _calls(tree.body) if _asks(call.func, aliases))
    return tuple(dict.fromkeys(phase for phase in found if phase is not None))


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Find the calls of a module, but those of its downgrade."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "downgrade":
            continue
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the module calls things of pipestate: `g` for `pipestate.gate.gate` after `import gate as g`."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            aliases |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            for name in node.names:
                aliases[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
    return aliases


def _asks(function: ast.expr, aliases: dict[str, str]) -> bool:
    """Whether a call is one of pipestate's own functions, under whatever name it was imported."""
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
