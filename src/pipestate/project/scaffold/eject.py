"""Eject pipestate: contracts become plain Alembic operations; calls for ledger, locks and guard are removed.

Files are parsed and never imported. Each other use of pipestate is listed with its line and its replacement.
A person writes those first; until then all files stay unchanged.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.project.find import Project
from pipestate.project.graph import Migrations
from pipestate.project.scaffold.draft import Draft, text
from pipestate.project.scaffold.revision import engines_of
from pipestate.project.syntax import bound, imported_names, parse, read_source

# Types of dropped columns from the ledger, by revision and table.
KnownColumns = Mapping[tuple[str, str], Mapping[str, str]]
LEDGER = ("install_ledger", "remove_ledger")
REMOVED = (*LEDGER, "lock_tables", "guard")
BY_HAND = {
    "gate": "remove the line of the `with`, and keep the gated code",
    "Contract": "write op.drop_table and op.drop_column: only literal tables and columns are rewritten",
    "create_index": "write op.create_index",
    "add_foreign_key": "write op.create_foreign_key",
    "add_checks": "write op.create_check_constraint",
    "add_columns": "write op.add_column",
    "update_in_batches": "write op.execute with one UPDATE",
}
_NAME = re.compile(r"[\w$]+(?:\.[\w$]+)?")
_BIND = re.compile(r"(?<![:\w\\]):\w")


def draft_eject(
    project: Project, migrations: Migrations, known: KnownColumns, *, server: bool
) -> list[Draft]:
    """Draft every file of the project without pipestate; ConfigError lists each place to rewrite by hand.

    `server`: one statement may drop several tables, which is impossible on SQLite.
    """
    revisions = {each.path.resolve(): each.id for each in migrations}
    paths = [each.path for each in migrations]
    paths += [each for each in sorted(project.scripts.rglob("*.py")) if each.resolve() not in revisions]
    by_engine = bool(engines_of(project))
    drafts, faults = [], []
    for path in paths:
        source = read_source(path)
        if path.suffix == ".py" and b"pipestate" in source:
            revision = revisions.get(path.resolve(), "")
            file = PythonFile(path, source, parse(source, path), known, revision, server, by_engine)
            after = file.rewritten()
            faults += file.faults
            try:
                drafts += [Draft(path, after.decode(), replaces=source.decode())] if after != source else []
            except UnicodeDecodeError:
                faults.append(f"{path}:1: this file is not UTF-8")
    template = project.scripts / "script.py.mako"
    if template.is_file() and b"pipestate" in template.read_bytes():
        faults.append(f"{template}:1: the template of new revisions names pipestate")
    if faults:
        listed = "\n".join(f"  {each}" for each in faults)
        raise ConfigError(f"rewrite these lines with plain Alembic first; nothing was changed:\n{listed}")
    return drafts


@dataclass(slots=True)
class PythonFile:
    """A file with its edits: statements and their new lines. `faults` are the places for a person."""

    path: Path
    source: bytes
    tree: ast.Module
    known: KnownColumns
    revision: str
    server: bool
    by_engine: bool
    faults: list[str] = field(default_factory=list)
    edits: list[tuple[ast.stmt, list[str]]] = field(default_factory=list)
    ours: dict[str, str] = field(default_factory=dict)  # names in this file, with their names in pipestate
    contracts: dict[str, ast.Call] = field(default_factory=dict)

    def rewritten(self) -> bytes:
        """Return the file without pipestate, or unchanged with `faults`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node)
        for name, value in bound(self.tree.body).items():
            if isinstance(value, ast.Call) and self._name(value.func) == "Contract":
                self.contracts[name] = value
                self.ours[name] = "Contract"
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and (lines := self._replacement(node)) is not None:
                self._edit(node, lines)
        self._find_leftovers()
        return self.source if self.faults else self._edited()

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = imported_names(node)
        mine = {
            name: what.rpartition(".")[2] for name, what in names.items() if what.split(".")[0] == "pipestate"
        }
        if mine and (len(mine) < len(names) or "*" in names or isinstance(node, ast.Import)):
            self._fault(node, "import names of pipestate with `from ... import ...`, one module a line")
        elif mine:
            self.ours |= mine
            self._edit(node, [] if node in self.tree.body else ["pass"])

    def _replacement(self, node: ast.stmt) -> list[str] | None:
        """Return the lines instead of a statement; None if it stays, which is a fault if it uses pipestate."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if self._name(call.func) in REMOVED:
                return [] if node in self.tree.body else ["pass"]
            if isinstance(call.func, ast.Attribute) and (contract := self._contract(call.func.value)):
                engine = ast.unparse(call.args[0]) if call.args else ""
                return self._operations(contract, call.func.attr, engine)
        if isinstance(node, ast.Assign) and node in self.tree.body:
            return [] if node.value in self.contracts.values() else self._functions(node)
        return None

    def _functions(self, node: ast.Assign) -> list[str] | None:
        """Write functions for `upgrade, downgrade = contract.upgrade, contract.downgrade`, or the ledger's."""
        lines: list[str] = []
        for name, value in bound([node]).items():
            by_engine, body = self.by_engine, None
            if isinstance(value, ast.Attribute) and (contract := self._contract(value.value)):
                body = self._operations(contract, value.attr, "engine_name")
                by_engine = by_engine or any(each.arg == "engine" for each in contract.keywords)
            elif isinstance(value, ast.Name) and self._name(value) in LEDGER:
                body = ["pass"]
            if body is None:
                return None
            given = "engine_name: str" if by_engine else ""
            lines += ["", "", f"def {name}({given}) -> None:", *(f"    {line}" for line in body)]
        return lines[1:] or None

    def _operations(self, contract: ast.Call, function: str, engine: str) -> list[str] | None:
        """Write the operations of a contract; None if its arguments are computed."""
        given = {each.arg: each.value for each in contract.keywords}
        if {None, "may_be_gone", "drop_triggers"} & given.keys():
            return None
        try:
            tables = [*ast.literal_eval(given.get("tables", ast.Tuple([])))]
            columns = ast.literal_eval(given.get("columns", ast.Dict([], [])))
            pairs = [(table, column) for table, several in columns.items() for column in several]
            only = ast.literal_eval(given.get("engine", ast.Constant(None)))
        except (ValueError, AttributeError, TypeError):
            return None
        dropped = [*tables, *columns, *(column for _, column in pairs)]
        named = all(isinstance(each, str) and _NAME.fullmatch(each) for each in dropped)
        if not dropped or not named or (only and not engine) or function not in ("upgrade", "downgrade"):
            return None
        lines = self._drops(tables, pairs) if function == "upgrade" else self._returns(tables, pairs)
        return [f"if {engine} == {text(only)}:", *(f"    {each}" for each in lines)] if only else lines

    def _drops(self, tables: list[str], columns: list[tuple[str, str]]) -> list[str]:
        lines = []
        for name, column in (*columns, *((table, None) for table in tables)):
            schema, _, table = name.rpartition(".")
            more = f", {text(column)}" if column else ""
            more += f", schema={text(schema)}" if schema else ""
            lines.append(f"op.drop_{'column' if column else 'table'}({text(table)}{more})")
        if len(tables) < 2 or not self.server:
            return lines
        together = ", ".join(
            map(_quoted, tables)
        )  # one statement, because the tables may refer to each other
        return [*lines[: len(columns)], f"op.execute('DROP TABLE {together}')"]

    def _returns(self, tables: list[str], columns: list[tuple[str, str]]) -> list[str]:
        """Add the columns again, without values; write a `raise` for tables and unknown types."""
        types = [self.known.get((self.revision, table), {}).get(column, "") for table, column in columns]
        unknown = [f"table {table}" for table in tables]
        unknown += [
            f"{table}.{column}"
            for (table, column), type_ in zip(columns, types, strict=True)
            if not type_ or _BIND.search(type_)
        ]
        if unknown:
            said = f"revision {self.revision} dropped {', '.join(unknown)} for good: load a backup"
            return [f"raise NotImplementedError({text(said)})"]
        return [
            f"op.execute({f'ALTER TABLE {_quoted(table)} ADD COLUMN {_quoted(column)} {type_}'!r})"
            for (table, column), type_ in zip(columns, types, strict=True)
        ]

    def _find_leftovers(self) -> None:
        """Report every remaining use of pipestate."""
        left: list[ast.AST] = [self.tree]
        edited = [node for node, _ in self.edits]
        while left:
            node = left.pop(0)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.ours:
                name = self.ours[node.id]
                self._fault(node, f"{name}: {BY_HAND.get(name, 'write this with plain Alembic')}")
            left[:0] = [each for each in ast.iter_child_nodes(node) if each not in edited]

    def _edited(self) -> bytes:
        """Apply the edits from the end to the beginning; the first import becomes one of `op` if that is missing."""
        lines = self.source.splitlines(keepends=True)
        eol = b"\r\n" if b"\r\n" in self.source else b"\n"
        needs_op = any("op." in line for _, new in self.edits for line in new)
        imports = next((node for node, _ in self.edits if isinstance(node, ast.ImportFrom)), None)
        if "op" in bound(self.tree.body) or not needs_op:
            imports = None
        for node, new in sorted(self.edits, key=lambda edit: edit[0].lineno, reverse=True):
            begin, end = node.lineno - 1, node.end_lineno or node.lineno
            indent = lines[begin][: node.col_offset]
            texts = ["from alembic import op"] if node is imports else new
            lines[begin:end] = [(indent + each.encode() if each else b"") + eol for each in texts]
        return b"".join(lines)

    def _edit(self, node: ast.stmt, new: list[str]) -> None:
        lines, last = self.source.splitlines(), (node.end_lineno or node.lineno) - 1
        behind = lines[last][node.end_col_offset :].split(b"#")[0]
        if lines[node.lineno - 1][: node.col_offset].strip() or behind.strip():
            self._fault(node, "another statement is on this line: write each on its own line")
        self.edits.append((node, new))

    def _fault(self, node: ast.stmt | ast.expr, said: str) -> None:
        self.faults.append(f"{self.path}:{node.lineno}: {said}")

    def _name(self, node: ast.expr) -> str | None:
        return self.ours.get(node.id) if isinstance(node, ast.Name) else None

    def _contract(self, node: ast.expr) -> ast.Call | None:
        if isinstance(node, ast.Call) and self._name(node.func) == "Contract":
            return node
        return self.contracts.get(node.id) if isinstance(node, ast.Name) else None


def _quoted(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))
