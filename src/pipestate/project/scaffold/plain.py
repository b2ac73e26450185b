"""Plain Alembic operations for the helpers of `pipestate.ddl`, if they are certainly equivalent."""

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipestate.project.scaffold.draft import text
from pipestate.project.scaffold.edits import PythonFile
from pipestate.project.syntax import bound, literal

FOREIGN_KEY = ("table", "name", "column", "target")
BIND = re.compile(r"(?<![:\w\\]):\w")


@dataclass(slots=True, kw_only=True)
class HelpedFile(PythonFile):
    """A file with calls of helpers: each method below writes the lines for a call, or returns None."""

    server: bool  # constraints change in place; False on SQLite
    ours: dict[str, str] = field(default_factory=dict)  # names in this file, with their targets in pipestate

    def name(self, node: ast.expr) -> str | None:
        """Return the last part of a name from pipestate."""
        found = self.ours.get(node.id) if isinstance(node, ast.Name) else None
        return found.rpartition(".")[2] if found and found.startswith("pipestate.") else None

    @property
    def constants(self) -> dict[str, ast.expr | None]:
        """Map names bound exactly once to their values, excluding names with attribute or item access."""
        nodes = list(ast.walk(self.tree))
        stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
        stored.update(each.arg for each in nodes if isinstance(each, ast.arg))
        odd = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
        odd |= {n.value.id for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
        every = bound(self.tree.body)
        return {name: value for name, value in every.items() if stored[name] == 1 and name not in odd}

    def ours_called(self, node: ast.AST | None) -> str | None:
        return self.name(node.func) if isinstance(node, ast.Call) else None

    def _index(self, call: ast.Call) -> list[str] | None:
        index = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not isinstance(index, ast.Call) or self.ours_called(index) != "Index":
            return None
        given = self._literals(index, ("name", "table", "keys"), ("unique", "where"))
        if given is None:
            return None
        where = f" WHERE ({given['where']})" if given.get("where") else ""
        unique = "UNIQUE " if given.get("unique") else ""
        on = f"{quoted(str(given['name']))} ON {quoted(str(given['table']))}"
        return self._sql(f"CREATE {unique}INDEX {on} ({given['keys']}){where}")

    def _foreign_key(self, call: ast.Call) -> list[str] | None:
        given = self._literals(call, FOREIGN_KEY, ("on_delete", "target_column"))
        if given is None or not self.server or not given.get("on_delete"):
            return None
        to = f"{quoted(str(given['target']))} ({quoted(str(given.get('target_column', 'id')))})"
        return self._sql(
            f"ALTER TABLE {quoted(str(given['table']))} ADD CONSTRAINT {quoted(str(given['name']))} "
            f"FOREIGN KEY ({quoted(str(given['column']))}) REFERENCES {to} ON DELETE {given['on_delete']}"
        )

    def _checks(self, call: ast.Call) -> list[str] | None:
        names = self.constants
        table, *rest = [literal(call.args[0], names), *call.args[1:]] if call.args else [None]
        checks = dictionary(call.args[1], names) if len(rest) == 1 else None
        if not isinstance(table, str) or not checks or call.keywords or not self.server:
            return None
        lines: list[str] = []
        for name, condition in checks.items():
            written = f"ALTER TABLE {quoted(table)} ADD CONSTRAINT {quoted(name)} CHECK ({condition})"
            line = self._sql(written) if isinstance(condition, str) else None
            if line is None:
                return None
            lines += line
        return lines

    def _columns(self, call: ast.Call) -> list[str] | None:
        """Add the columns of a `sa.Table(name, MetaData(), sa.Column(...), ...)` written in the call."""
        table = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not isinstance(table, ast.Call) or called(table) != "Table" or table.keywords:
            return None
        name = literal(table.args[0], self.constants) if table.args else None
        columns = [each for each in table.args[2:] if isinstance(each, ast.Call) and called(each) == "Column"]
        parts = {called(each) for column in columns for each in ast.walk(column)}
        odd = any(isinstance(each, ast.Name) and each.id in self.ours for each in ast.walk(table))
        if not isinstance(name, str) or not columns or len(columns) < len(table.args) - 2 or odd:
            return None
        if "ForeignKey" in parts and not self.server:
            return None
        source = self.source.decode()
        return [
            f"op.add_column({table_arguments(name, f', {ast.get_source_segment(source, each)}')})"
            for each in columns
        ]

    def _sql(self, statement: str) -> list[str] | None:
        """Write a statement; None if Alembic would read a part of it as a parameter."""
        return None if BIND.search(statement) else [f"op.execute({string(statement)})"]

    def _literals(
        self, call: ast.Call, required: Sequence[str], more: Sequence[str]
    ) -> dict[str, object] | None:
        """Read the arguments of a call; None if one is computed or unexpected."""
        given = dict(zip((*required, *more), call.args, strict=False))
        given |= {each.arg or "**": each.value for each in call.keywords}
        names = self.constants
        values = {name: literal(value, names) for name, value in given.items()}
        allowed = {*required, *more}
        if len(call.args) > len(allowed) or not set(required) <= values.keys() <= allowed:
            return None
        return values if all(isinstance(each, str | bool | None) for each in values.values()) else None


HELPERS = {
    "create_index": HelpedFile._index,
    "add_foreign_key": HelpedFile._foreign_key,
    "add_checks": HelpedFile._checks,
    "add_columns": HelpedFile._columns,
}


def called(node: ast.AST) -> str | None:
    """Return the name of the called function, without its module."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def dictionary(node: ast.expr | None, names: Mapping[str, ast.expr | None]) -> dict[str, object] | None:
    """Read a dictionary with literal values; None for other expressions."""
    node = names.get(node.id) if isinstance(node, ast.Name) else node
    if not isinstance(node, ast.Dict):
        return None
    found = {literal(k, names): literal(v, names) for k, v in zip(node.keys, node.values, strict=True)}
    known = {key: value for key, value in found.items() if isinstance(key, str)}
    return known if len(known) == len(node.keys) else None


def table_arguments(name: str, more: str = "") -> str:
    """Write a table name for Alembic's operations, followed by more arguments."""
    schema, _, table = name.rpartition(".")
    return f"{text(table)}{more}" + (f", schema={text(schema)}" if schema else "")


def quoted(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))


def string(statement: str) -> str:
    return repr(statement) if "'" not in statement else text(statement).replace("\n", "\\n")
