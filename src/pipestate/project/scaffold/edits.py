"""Edit a Python file at positions from its syntax tree; all other bytes stay unchanged."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipestate.core.errors import RunbookError
from pipestate.project.scaffold.draft import text as quoted
from pipestate.project.syntax import bound
from pipestate.runbook.files import read_beside
from pipestate.runbook.lint import findings
from pipestate.runbook.model import Phase, Runbook
from pipestate.runbook.parse import collect

COLON = re.compile(rb"[\s,)]*:[ \t]*(?:#[^\r\n]*)?\r?\n?")


@dataclass(slots=True)
class PythonFile:
    """A file with its removed and replaced statements; `faults` are places that cannot be edited."""

    path: Path
    source: bytes
    tree: ast.Module
    faults: list[str] = field(default_factory=list)
    removed: list[ast.stmt] = field(default_factory=list)
    replaced: list[tuple[ast.stmt, list[str]]] = field(default_factory=list)
    accounted: set[int] = field(default_factory=set)  # ids of rewritten nodes, including their subtrees

    def fault(self, node: ast.stmt | ast.expr, said: str) -> None:
        self.faults.append(f"{self.path}:{node.lineno}: {said}")

    def edited(self) -> bytes:
        """Apply the edits from the end to the beginning."""
        passes: list[ast.stmt] = []
        for node in ast.walk(self.tree):
            for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(body, list) and body and all(each in self.removed for each in body):
                    passes += body[:1] if body is not self.tree.body else []
        edits = [(each, ["pass"] if each in passes else []) for each in self.removed] + self.replaced
        if any("op." in line for _, lines in self.replaced for line in lines):
            edits = self._with_op(edits)
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

    def _with_op(self, edits: list[tuple[ast.stmt, list[str]]]) -> list[tuple[ast.stmt, list[str]]]:
        """Replace the first import of pipestate with an import of `op`, unless that exists."""
        for node in self.tree.body:
            names = node.names if isinstance(node, ast.ImportFrom) and node.module == "alembic" else []
            if any(each.name == "op" and each.asname is None for each in names):
                return edits
        first = next((n for n in self.tree.body if n in self.removed and isinstance(n, ast.ImportFrom)), None)
        if first is None or "op" in bound(self.tree.body):
            self.fault(self.tree.body[0], "`from alembic import op` is missing at the top")
        return [(node, ["from alembic import op"] if node is first else lines) for node, lines in edits]

    def remove(self, node: ast.stmt) -> None:
        if self._is_alone(node):
            self.removed.append(node)

    def replace(self, node: ast.stmt, lines: list[str]) -> None:
        if self._is_alone(node):
            self.replaced.append((node, lines))

    def _is_alone(self, node: ast.stmt) -> bool:
        """Record a statement as rewritten; a statement that shares its line is a fault."""
        before = self.source[self.at(node.lineno, 0) : self.at(node.lineno, node.col_offset)]
        behind = self.source[
            self.at(node.end_lineno, node.end_col_offset) : self.at((node.end_lineno or 0) + 1, 0)
        ]
        self.account(node)
        if before.strip() or behind.split(b"#")[0].strip():
            self.fault(node, "another statement is on this line: write one a line")
            return False
        return True

    def account(self, node: ast.AST) -> None:
        self.accounted.add(id(node))

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


# Edit front matter in place: a phase with `opens` opens one more revision, others end with it.
#
# All other bytes stay unchanged.


_FRONT = re.compile(r"\A\ufeff?---[^\n]*\n(?P<yaml>.*?\n)---", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from `start` to `end`; insert if both are equal."""

    start: int
    end: int
    text: str


def opened(source: str, runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> str:
    """Return the runbook with the phases in `ends` limited by `revision`; a written `opens` gets it, too.

    If the form of the front matter cannot be edited, RunbookError names the lines to write by hand.
    """
    found = _FRONT.match(source)
    by_hand = RunbookError(
        runbook.path,
        phase.line,
        f"the front matter cannot be edited safely: write {_by_hand(phase, revision, ends)} yourself",
    )
    if found is None:
        raise by_hand
    opening = phase.name if phase.opens else None
    edits = _edits(_phases(found["yaml"]), found["yaml"], opening, revision, ends)
    front = found["yaml"]
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        front = front[: edit.start] + edit.text + front[edit.end :]
    changed = source[: found.start("yaml")] + front + source[found.end("yaml") :]
    if not _is_meant(changed, runbook, phase, revision, ends):
        raise by_hand
    if faults := findings(changed, runbook.path, read_beside(runbook.path)):
        raise faults[0].error()
    return changed


def _is_meant(changed: str, runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> bool:
    """Parse the edited runbook, and verify that exactly the intended values changed."""
    after, _ = collect(changed, runbook.path, read_beside(runbook.path))
    if after is None or len(after.phases) != len(runbook.phases):
        return False
    for old, new in zip(runbook.phases, after.phases, strict=True):
        opens = (*old.opens, revision) if old.name == phase.name and old.opens else old.opens
        until = revision if old.name in ends else old.until
        if (new.name, new.from_, new.until, new.opens) != (old.name, old.from_, until, opens):
            return False
    return True


def _by_hand(phase: Phase, revision: str, ends: Sequence[str]) -> str:
    said = [f"opens: [{quoted(revision)}] for phase {phase.name}"] if phase.opens else []
    return " and ".join([*said, *(f"until: {quoted(revision)} for phase {name}" for name in ends)])


def _phases(front: str) -> Mapping[str, tuple[Node, Node]]:
    root = yaml.compose(front, Loader=yaml.SafeLoader)
    assert isinstance(root, MappingNode)
    (phases,) = (value for key, value in root.value if key.value == "phases")
    return {key.value: (key, value) for key, value in phases.value}


def _edits(
    phases: Mapping[str, tuple[Node, Node]],
    front: str,
    opening: str | None,
    revision: str,
    ends: Sequence[str],
) -> Iterator[Edit]:
    for name, (_, node) in phases.items():
        added: dict[str, str] = {}
        fields = {key.value: value for key, value in node.value} if isinstance(node, MappingNode) else {}
        if name in ends:
            if "until" in fields:
                yield _replaced(fields["until"], quoted(revision))
            else:
                added["until"] = quoted(revision)
        if name == opening:
            yield _appended(fields["opens"], front, quoted(revision))
        if added:
            yield _added(node, front, added)


def _replaced(node: Node, new: str) -> Edit:
    return Edit(node.start_mark.index, node.end_mark.index, new)


def _appended(node: SequenceNode, front: str, item: str) -> Edit:
    """Append an item to a list, in brackets or on separate lines."""
    if node.flow_style:
        end = node.end_mark.index - 1
        return Edit(end, end, f"{_comma(front, node.start_mark.index, end)}{item}")
    end = _end_of_line(front, node.value[-1].end_mark.index)
    return Edit(end, end, f"{_newline(front)}{' ' * node.start_mark.column}- {item}")


def _added(node: Node, front: str, fields: Mapping[str, str]) -> Edit:
    """Add fields to a phase; use braces if it is empty."""
    flat = ", ".join(f"{key}: {value}" for key, value in fields.items())
    if isinstance(node, ScalarNode):
        start, end = node.start_mark.index, node.end_mark.index
        return Edit(start, end, f"{' ' if front[start - 1] == ':' else ''}{{{flat}}}")
    assert isinstance(node, MappingNode)
    if node.flow_style:
        end = node.end_mark.index - 1
        return Edit(end, end, f"{_comma(front, node.start_mark.index, end)}{flat}")
    first = node.value[0][0].start_mark
    lines = "".join(f"{key}: {value}{_newline(front)}{' ' * first.column}" for key, value in fields.items())
    return Edit(first.index, first.index, lines)


def _comma(front: str, start: int, end: int) -> str:
    """Return the separator between a new entry and the previous ones."""
    before = front[start:end].rstrip()
    return "" if before[-1] in "[{" else " " if before[-1] == "," else ", "


def _end_of_line(front: str, index: int) -> int:
    found = re.compile(r"\r?\n").search(front, index)
    return found.start() if found else len(front)


def _newline(front: str) -> str:
    return "\r\n" if "\r\n" in front else "\n"
