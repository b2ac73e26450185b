"""What an env.py says of its version table, read from its syntax."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipestate.chain.literals import UNKNOWN, Names, bound, literal, parse, read_source

ARGUMENTS = ("version_table", "version_table_schema")


@dataclass(frozen=True, slots=True)
class Declared:
    """A version table by name; `source` says where the name stands.

    Certain: whoever runs Alembic uses this table. Without a name that is Alembic's default; where it is not
    certain, only running env.py would tell.
    """

    table: str | None = None
    schema: str | None = None
    source: str = ""
    certain: bool = True

    @property
    def named(self) -> bool:
        return bool(self.table or self.schema)


def declared_in(env: Path) -> Declared:
    """Read the arguments of `configure(...)`; not certain where they are computed, or stand elsewhere."""
    if not env.is_file():
        return Declared(certain=False)
    found = set(_configured(parse(read_source(env), env)))
    tables, schemas = ({each[number] for each in found} for number in (0, 1))
    if not found or len(tables) > 1 or len(schemas) > 1 or UNKNOWN in tables | schemas:
        return Declared(certain=False)
    ((table, schema),) = found
    if not isinstance(table, str | None) or not isinstance(schema, str | None):
        return Declared(certain=False)
    return Declared(table, schema, str(env) if table or schema else "")


def _configured(tree: ast.Module) -> Iterator[tuple[object, object]]:
    """Find every call of `configure`, with what it says of table and schema; None where it says nothing."""
    for names, call in _calls(tree.body, bound(tree.body)):
        function = call.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if called == "configure":
            table, schema = (_argument(call, name, names) for name in ARGUMENTS)
            yield table, schema


def _argument(call: ast.Call, name: str, names: Names) -> object:
    for keyword in call.keywords:
        if keyword.arg == name:
            return literal(keyword.value, names)
    # `**options`: a dictionary that is written out can be read, any other may hold anything.
    for keyword in call.keywords:
        if keyword.arg is None:
            return _in_dictionary(keyword.value, name, names)
    return None


def _in_dictionary(node: ast.expr, name: str, names: Names) -> object:
    written = names.get(node.id) if isinstance(node, ast.Name) else node
    if not isinstance(written, ast.Dict):
        return UNKNOWN
    for key, value in zip(written.keys, written.values, strict=True):
        if key is None:
            return UNKNOWN
        if literal(key, names) == name:
            return literal(value, names)
    return None


def _calls(body: list[ast.stmt], names: Names) -> Iterator[tuple[Names, ast.Call]]:
    """Find all calls, each with the names that it sees: those of a function hide those of the module."""
    for statement in body:
        yield from _within(statement, names)


def _within(node: ast.AST, names: Names) -> Iterator[tuple[Names, ast.Call]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        names = {**names, **{each.arg: None for each in given}, **bound(node.body)}
    if isinstance(node, ast.Call):
        yield names, node
    for child in ast.iter_child_nodes(node):
        yield from _within(child, names)
