"""Edit a revision's file: plain Alembic operations for the helpers of `pipestate.ddl`, where certainly equal.

Edits are made at positions from the syntax tree; all other bytes stay unchanged.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.project.scaffold.draft import text
from pipestate.project.syntax import bound, called_name, literal

COLON = re.compile(rb"[\s,)]*:[ \t]*(?:#[^\r\n]*)?\r?\n?")
FOREIGN_KEY = ("table", "name", "column", "target")
BIND = re.compile(r"(?<![:\w\\]):\w")


@dataclass(slots=True)
class PythonFile:
    """A file with its edits: statements and their new lines. `faults` are places that cannot be edited."""

    path: Path
    source: bytes
    tree: ast.Module
    faults: list[str] = field(default_factory=list)
    edits: list[tuple[ast.stmt, list[str]]] = field(default_factory=list)
    accounted: set[int] = field(default_factory=set)  # ids of rewritten nodes, including their subtrees

    def fault(self, node: ast.stmt | ast.expr, said: str) -> None:
        self.faults.append(f"{self.path}:{node.lineno}: {said}")

    def edited(self) -> bytes:
        """Apply the edits from the end to the beginning."""
        removed, passes = [node for node, lines in self.edits if not lines], []
        for node in ast.walk(self.tree):
            for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(body, list) and body and all(each in removed for each in body):
                    passes += body[:1] if body is not self.tree.body else []
        edits = [(node, ["pass"] if node in passes else lines) for node, lines in self.edits]
        if any("op." in line for _, lines in edits for line in lines):
            edits = self._with_op(edits, removed)
        after, eol = self.source, b"\r\n" if b"\r\n" in self.source else b"\n"
        for node, lines in sorted(edits, key=lambda edit: edit[0].lineno, reverse=True):
            begin = self.at(node.lineno, 0)
            end = self.at((node.end_lineno or node.lineno) + 1, 0)
            indent = self.source[begin : self.at(node.lineno, node.col_offset)]
            several = node.end_lineno != node.lineno and not isinstance(node, ast.Import | ast.ImportFrom)
            kept = _comments(self.source[begin:end]) if lines or several else []
            new = [indent + each.encode() if each else b"" for each in [*kept, *lines]]
            if not new and self.source[:begin].endswith(eol * 2) and after[end:].startswith(eol):
                end += len(eol)
            after = after[:begin] + b"".join(each + eol for each in new) + after[end:]
        return after

    def _with_op(
        self, edits: list[tuple[ast.stmt, list[str]]], removed: list[ast.stmt]
    ) -> list[tuple[ast.stmt, list[str]]]:
        """Replace the first import of pipestate with an import of `op`, unless that exists."""
        for node in self.tree.body:
            names = node.names if isinstance(node, ast.ImportFrom) and node.module == "alembic" else []
            if any(each.name == "op" and each.asname is None for each in names):
                return edits
        first = next((n for n in self.tree.body if n in removed and isinstance(n, ast.ImportFrom)), None)
        if first is None or "op" in bound(self.tree.body):
            self.fault(self.tree.body[0], "`from alembic import op` is missing at the top")
        return [(node, ["from alembic import op"] if node is first else lines) for node, lines in edits]

    def replace(self, node: ast.stmt, lines: list[str] | None) -> None:
        """Replace a statement, or remove it for an empty list; None leaves it, which is a fault later.

        A statement that shares its line is a fault.
        """
        if lines is None:
            return
        before = self.source[self.at(node.lineno, 0) : self.at(node.lineno, node.col_offset)]
        end, line = self.at(node.end_lineno, node.end_col_offset), self.at((node.end_lineno or 0) + 1, 0)
        self.accounted.add(id(node))
        if before.strip() or self.source[end:line].split(b"#")[0].strip():
            self.fault(node, "another statement is on this line: write one a line")
        else:
            self.edits.append((node, lines))

    def at(self, line: int | None, column: int | None) -> int:
        lines = self.source.splitlines(keepends=True)[: (line or 1) - 1]
        return sum(map(len, lines)) + (column or 0)


def without_header(source: bytes, node: ast.With) -> bytes:
    """Remove the header of a `with` and dedent its body; lines inside strings stay unchanged."""
    lines = source.splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1]))
    expression = node.items[0].context_expr
    end = sum(map(len, lines[: (expression.end_lineno or 1) - 1])) + (expression.end_col_offset or 0)
    colon = COLON.match(source, end)
    assert colon is not None
    indent = source[begin : begin + node.col_offset]
    first = node.body[0]
    if first.lineno == expression.end_lineno:  # all on one line
        return source[: begin + node.col_offset] + source[colon.end() :]
    inside = {
        line
        for each in ast.walk(node)
        if isinstance(each, ast.Constant | ast.JoinedStr)
        for line in range(each.lineno + 1, (each.end_lineno or each.lineno) + 1)
    }
    header = source[begin : colon.end()].count(b"\n")
    kept = [indent + each.encode() + b"\n" for each in _comments(source[begin : colon.end()])]
    for number in range(node.lineno + header, (node.end_lineno or node.lineno) + 1):
        line = lines[number - 1]
        spaces = len(line) - len(line.lstrip(b" \t"))
        width = min(first.col_offset - node.col_offset, spaces - node.col_offset)
        kept.append(line if number in inside or width < 0 or not line.strip() else line[width:])
    return source[:begin] + b"".join(kept) + b"".join(lines[node.end_lineno or node.lineno :])


def _comments(source: bytes) -> list[str]:
    """List the comments of a part of a file."""
    found = []
    with suppress(tokenize.TokenError, IndentationError):  # a header without its body
        for token in tokenize.tokenize(io.BytesIO(source.lstrip()).readline):
            found += [token.string] if token.type == tokenize.COMMENT else []
    return found


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
        if len(call.args) != 2 or call.keywords or not self.server:
            return None
        table, checks = literal(call.args[0], self.constants), dictionary(call.args[1], self.constants)
        if (
            not isinstance(table, str)
            or not checks
            or not all(isinstance(each, str) for each in checks.values())
        ):
            return None
        return self._sql(
            *(
                f"ALTER TABLE {quoted(table)} ADD CONSTRAINT {quoted(name)} CHECK ({condition})"
                for name, condition in checks.items()
            )
        )

    def _columns(self, call: ast.Call) -> list[str] | None:
        """Add the columns of a `sa.Table(name, MetaData(), sa.Column(...), ...)` written in the call."""
        table = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if not isinstance(table, ast.Call) or called_name(table) != "Table" or table.keywords:
            return None
        name = literal(table.args[0], self.constants) if table.args else None
        columns = [
            each for each in table.args[2:] if isinstance(each, ast.Call) and called_name(each) == "Column"
        ]
        parts = {called_name(each) for column in columns for each in ast.walk(column)}
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

    def _sql(self, *statements: str) -> list[str] | None:
        """Write statements; None if Alembic would read a part of one as a parameter."""
        if any(map(BIND.search, statements)):
            return None
        return [f"op.execute({string(each)})" for each in statements]

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
