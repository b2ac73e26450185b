"""Front matter edited in place: a phase opens one more revision, and ends with it. Every other byte stays."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipestate.errors import RunbookError
from pipestate.runbook.files import read_beside
from pipestate.runbook.lint import findings
from pipestate.runbook.model import Phase, Runbook
from pipestate.runbook.parse import collect
from pipestate.scaffold.layout import text as quoted

_FRONT = re.compile(r"\A\ufeff?---[^\n]*\n(?P<yaml>.*?\n)---", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands from `start` to `end`; nothing, where both are one."""

    start: int
    end: int
    text: str


def opened(source: str, runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> str:
    """Return the page with `revision` in the phase's `opens`; the phases in `ends` apply until it.

    RunbookError with what to write by hand where the front matter is of a form that cannot be edited.
    """
    found = _FRONT.match(source)
    by_hand = RunbookError(
        runbook.path,
        phase.line,
        f"the front matter cannot be edited safely: write opens: [{quoted(revision)}] for phase {phase.name} yourself",
    )
    if found is None:
        raise by_hand
    edits = _edits(_phases(found["yaml"]), found["yaml"], phase.name, revision, ends)
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
    """Read the edited page, and see that it says what was meant and nothing else."""
    after, _ = collect(changed, runbook.path, read_beside(runbook.path))
    if after is None or len(after.phases) != len(runbook.phases):
        return False
    for old, new in zip(runbook.phases, after.phases, strict=True):
        opens = (*old.opens, revision) if old.name == phase.name else old.opens
        until = revision if old.name in ends else old.until
        if (new.name, new.from_, new.until, new.opens) != (old.name, old.from_, until, opens):
            return False
    return True


def _phases(front: str) -> Mapping[str, tuple[Node, Node]]:
    root = yaml.compose(front, Loader=yaml.SafeLoader)
    assert isinstance(root, MappingNode)
    (phases,) = (value for key, value in root.value if key.value == "phases")
    return {key.value: (key, value) for key, value in phases.value}


def _edits(
    phases: Mapping[str, tuple[Node, Node]], front: str, opening: str, revision: str, ends: Sequence[str]
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
            if isinstance(fields.get("opens"), SequenceNode):
                yield _appended(fields["opens"], front, quoted(revision))
            else:
                added["opens"] = f"[{quoted(revision)}]"
        if added:
            yield _added(node, front, added)


def _replaced(node: Node, new: str) -> Edit:
    return Edit(node.start_mark.index, node.end_mark.index, new)


def _appended(node: SequenceNode, front: str, item: str) -> Edit:
    """Add an item to a list, in brackets or on lines of its own."""
    if node.flow_style:
        end = node.end_mark.index - 1
        return Edit(end, end, f"{_comma(front, node.start_mark.index, end)}{item}")
    end = _end_of_line(front, node.value[-1].end_mark.index)
    return Edit(end, end, f"{_newline(front)}{' ' * node.start_mark.column}- {item}")


def _added(node: Node, front: str, fields: Mapping[str, str]) -> Edit:
    """Add fields to what a phase says; where it says nothing yet, in braces."""
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
    """Return what separates a new entry from those before it."""
    before = front[start:end].rstrip()
    return "" if before[-1] in "[{" else " " if before[-1] == "," else ", "


def _end_of_line(front: str, index: int) -> int:
    found = re.compile(r"\r?\n").search(front, index)
    return found.start() if found else len(front)


def _newline(front: str) -> str:
    return "\r\n" if "\r\n" in front else "\n"
