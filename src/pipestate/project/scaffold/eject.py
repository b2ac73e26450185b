"""Eject pipestate: replace contracts, gates and helpers of revisions with plain Alembic operations.

Files are parsed and never imported. A use of pipestate without a certain equivalent is a fault; after any
fault, all files stay unchanged.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipestate.core.errors import ConfigError
from pipestate.project.find import Project
from pipestate.project.graph import Chain
from pipestate.project.scaffold.draft import Draft, text
from pipestate.project.scaffold.plain import (
    BIND,
    COLON,
    HELPERS,
    HelpedFile,
    dictionary,
    quoted,
    string,
    table_arguments,
    without_header,
)
from pipestate.project.scaffold.revision import engines_of
from pipestate.project.syntax import bound, imported_names, literal, parse, read_source

# Types of dropped columns from the ledger, by revision and table.
KnownColumns = Mapping[tuple[str, str], Mapping[str, str]]
LEDGER = ("install_ledger", "remove_ledger")
NEEDLESS = (*LEDGER, "lock_tables", "guard")
_NAME = re.compile(r"[\w$]+(?:\.[\w$]+)?")


def draft_eject(project: Project, chain: Chain, known: KnownColumns, *, server: bool) -> list[Draft]:
    """Draft every file of the project without pipestate; ConfigError lists each place to rewrite by hand.

    `server`: constraints and tables change in place, which is impossible on SQLite.
    """
    by_engine = bool(engines_of(project))
    revisions = {each.path.resolve(): each for each in chain}
    paths = [each.path for each in chain]
    paths += [each for each in sorted(project.scripts.rglob("*.py")) if each.resolve() not in revisions]
    drafts, faults = [], []
    for path in paths:
        source = read_source(path)
        if path.suffix == ".py" and b"pipestate" in source:
            revision = revisions.get(path.resolve())
            try:
                source.decode()
            except UnicodeDecodeError:
                faults.append(f"{path}:1: this file is not UTF-8")
                continue
            file = _File(
                path,
                source,
                parse(source, path),
                server=server,
                known=known,
                by_engine=by_engine,
                revision=revision.id if revision else "",
            )
            after = file.rewritten()
            faults += file.faults
            if after != source and not file.faults:
                drafts.append(Draft(path, after.decode(), replaces=source.decode()))
    template = project.scripts / "script.py.mako"
    if template.is_file() and b"pipestate" in template.read_bytes():
        faults.append(f"{template}:1: the template of new revisions names pipestate")
    if faults:
        raise ConfigError("; ".join(faults) + ": write this with plain Alembic; nothing was changed")
    return drafts


@dataclass(slots=True, kw_only=True)
class _File(HelpedFile):
    known: KnownColumns
    by_engine: bool
    revision: str
    contracts: dict[str, ast.Call] = field(default_factory=dict)

    def rewritten(self) -> bytes:
        """Return the file without pipestate; `faults` lists the places that need a person."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node)
        for node in list(ast.walk(self.tree)):
            if isinstance(node, ast.stmt):
                self._read_statement(node)
        self._find_leftovers()
        if self.faults or not self.ours:
            return self.source
        after = self.edited()
        while found := next((n for n in ast.walk(parse(after, self.path)) if self._is_gate(n)), None):
            assert isinstance(found, ast.With)
            after = without_header(after, found)
        return after

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = imported_names(node)
        mine = {name: what for name, what in names.items() if what.split(".")[0] == "pipestate"}
        if not mine:
            return
        if len(mine) < len(names) or "*" in names or isinstance(node, ast.Import):
            self.fault(node, "import names of pipestate with `from ... import ...`, one module a line")
        self.ours |= mine
        self.replace(node, [])

    def _read_statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._read_call(node, node.value)
        elif isinstance(node, ast.Assign) and (called := self.ours_called(node.value)) == "Contract":
            (target, *more) = node.targets
            once = isinstance(target, ast.Name) and target.id not in self.contracts
            if once and not more and isinstance(target, ast.Name) and node in self.tree.body:
                assert isinstance(node.value, ast.Call)
                self.contracts[target.id] = node.value
                self.ours[target.id] = f"the {called} {target.id}"
                self.replace(node, [])
        elif isinstance(node, ast.Assign) and node in self.tree.body:
            self._read_functions(node)
        elif self._is_gate(node):
            assert isinstance(node, ast.With)
            (item,) = node.items
            end = self.at(item.context_expr.end_lineno, item.context_expr.end_col_offset)
            if item.optional_vars is None and COLON.match(self.source, end):
                self.accounted.add(id(item.context_expr))

    def _read_call(self, node: ast.stmt, call: ast.Call) -> None:
        name = self.ours_called(call)
        if name in NEEDLESS:
            self.replace(node, [])
        elif name in HELPERS:
            self.replace(node, HELPERS[name](self, call))
        elif isinstance(call.func, ast.Attribute) and (contract := self._contract(call.func.value)):
            engine = ast.unparse(call.args[0]) if call.args else None
            self.replace(node, self._operations(contract, call.func.attr, engine))

    def _read_functions(self, node: ast.Assign) -> None:
        """Read `upgrade, downgrade = contract.upgrade, contract.downgrade`, and the ledger's functions."""
        lines: list[str] = []
        for name, value in bound([node]).items():
            if isinstance(value, ast.Attribute) and (contract := self._contract(value.value)):
                body = self._operations(contract, value.attr, "engine_name")
                by_engine = self.by_engine or any(each.arg == "engine" for each in contract.keywords)
            elif isinstance(value, ast.Name) and self.name(value) in LEDGER:
                body, by_engine = ["pass"], self.by_engine
            else:
                return
            if body is None:
                return
            given = "engine_name: str" if by_engine else ""
            lines += ["", "", f"def {name}({given}) -> None:", *(f"    {line}" for line in body)]
        self.replace(node, lines[1:])

    def _operations(self, contract: ast.Call, function: str, engine: str | None) -> list[str] | None:
        """Write the operations of a contract; None, and a fault, if its arguments are computed."""
        given = {each.arg: each.value for each in contract.keywords}
        names = self.constants
        tables = literal(given["tables"], names) if "tables" in given else ()
        listed = dictionary(given["columns"], names) if "columns" in given else {}
        columns = {table: each for table, each in (listed or {}).items() if isinstance(each, tuple)}
        meant = literal(given["engine"], names) if "engine" in given else None
        odd = {None, "may_be_gone", "drop_triggers"} & given.keys()
        if not isinstance(tables, tuple) or listed is None or odd or function not in FUNCTIONS:
            return None
        dropped = [*tables, *columns, *(each for several in columns.values() for each in several)]
        named = all(isinstance(each, str) and _NAME.fullmatch(each) for each in dropped)
        if not dropped or not named or len(columns) < len(listed):
            return None
        lines = FUNCTIONS[function](self, tables, columns)
        if meant is None:
            return lines
        if not isinstance(meant, str) or engine is None:
            return None
        return [f"if {engine} == {text(meant)}:", *(f"    {each}" for each in lines)]

    def _drops(self, tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> list[str]:
        lines = [
            f"op.drop_column({table_arguments(table, f', {text(column)}')})"
            for table, several in columns.items()
            for column in several
        ]
        if len(tables) > 1 and self.server:  # one statement, because the tables may refer to each other
            together = ", ".join(map(quoted, tables))
            return [*lines, f"op.execute({string(f'DROP TABLE {together}')})"]
        return [*lines, *(f"op.drop_table({table_arguments(table)})" for table in tables)]

    def _returns(self, tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> list[str]:
        """Add the columns again, without values; write a `raise` for tables and unknown types."""
        lines = []
        unknown = [f"table {table}" for table in tables]
        for table, several in columns.items():
            types = self.known.get((self.revision, table), {})
            for column in several:
                type_ = types.get(column)
                if not type_ or BIND.search(type_):
                    unknown.append(f"{table}.{column}")
                sql = f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(column)} {type_}"
                lines.append(f"op.execute({string(sql)})")
        if not unknown:
            return lines
        said = f"revision {self.revision} dropped {', '.join(unknown)} for good: load a backup"
        return [f"raise NotImplementedError({text(said)})"]

    def _find_leftovers(self) -> None:
        """Find every remaining use of pipestate."""
        left = [self.tree] if self.ours else []
        while left:
            node: ast.AST = left.pop()
            if id(node) in self.accounted:
                continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.ours:
                self.fault(node, f"this use of {self.ours[node.id]} has no certain equivalent")
            left.extend(ast.iter_child_nodes(node))  # type: ignore[arg-type]

    def _is_gate(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.With) or len(node.items) != 1:
            return False
        return self.ours_called(node.items[0].context_expr) == "gate"

    def _contract(self, node: ast.expr) -> ast.Call | None:
        if isinstance(node, ast.Call) and self.ours_called(node) == "Contract":
            return node
        return self.contracts.get(node.id) if isinstance(node, ast.Name) else None


FUNCTIONS = {"upgrade": _File._drops, "downgrade": _File._returns}
