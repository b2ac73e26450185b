"""Draft of a contract: its revision, its runbook, and a check for proof of disuse."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipestate.core.errors import ConfigError, RunbookError
from pipestate.project.find import Project
from pipestate.project.graph import Chain
from pipestate.project.phases import fill_opens
from pipestate.project.scaffold.draft import Draft, refuse_existing
from pipestate.project.scaffold.draft import text as quoted
from pipestate.project.scaffold.revision import (
    Dropped,
    WantedRevision,
    contract_revision,
    engines_of,
    find_place,
)
from pipestate.runbook.files import named_runbook, read_beside, read_text
from pipestate.runbook.lint import findings
from pipestate.runbook.markdown import Heading, blocks
from pipestate.runbook.model import Check, Phase, Runbook, SignOff
from pipestate.runbook.parse import collect, is_blocking, unblocking

CHECK = """
```sql
-- check: disused-{revision}
-- dialect: postgresql
{level}-- require: days_unused >= 7
SELECT days_unused, unused_since, why, standbys FROM pipestate.disuse WHERE revision = '{revision}';
```

Requires a week without a call of any statement that this contract breaks. `pipestate compat --record` finds
these statements, `pipestate observe` counts their calls, and `why` names the last interruption.{missing}
"""
MISSING = " This server has no\npg_stat_statements: create the extension, then delete `level`."


def with_disuse_check(source: str, phase: Phase, revision: str, *, counts: bool) -> str:
    """Add the check at the end of the phase; it only warns if the server does not count statements."""
    id_ = "".join(each if each.isalnum() else "-" for each in revision.lower())
    check = CHECK.format(
        revision=id_, level="" if counts else "-- level: warn\n", missing="" if counts else MISSING
    ).replace(f"revision = '{id_}'", f"revision = '{revision}'")
    lines = source.split("\n")
    headings = [
        part for part in blocks(source) if isinstance(part, Heading) and part.depth <= 2 and not part.nested
    ]
    names = [re.sub(r"Phase:\s*", "", each.text) for each in headings]
    after_phase = headings[names.index(phase.name) + 1 :]
    end = after_phase[0].line - 1 if after_phase else len(lines)
    before, after = "\n".join(lines[:end]).rstrip(), "\n".join(lines[end:])
    newline = "\r\n" if "\r\n" in source else "\n"
    return f"{before}{newline}{check.replace(chr(10), newline)}" + (f"{newline}{after}" if after else "")


# A contract for a user's chain: its revision, and the runbook if an earlier phase must end with it.


@dataclass(frozen=True, slots=True)
class Contracted:
    """Drafted files, the gate of the revision, and the phases that end with it."""

    revision: str
    runbook: Runbook
    phase: Phase
    drafts: tuple[Draft, ...]
    ends: tuple[str, ...]

    @property
    def stays(self) -> tuple[str, ...]:
        """List the phases before the gate that still apply after the contract."""
        before = self.runbook.phases[: self.runbook.phases.index(self.phase)]
        return tuple(each.name for each in before if each.until is None and each.name not in self.ends)


def draft_contract(
    project: Project,
    chain: Chain,
    phase: str,
    dropped: Dropped,
    wanted: WantedRevision,
    *,
    recheck: Sequence[str] = (),
    engine: str | None = None,
    counts: bool | None = None,
) -> Contracted:
    """Draft the revision and a changed runbook; raise ConfigError or RunbookError if that is impossible.

    `counts` tells whether the database counts statements, so that a check can verify disuse;
    it is None if the database is unavailable.
    """
    runbook, found = find_phase(project.runbooks, phase)
    name = f"{runbook.name}/{found.name}"
    there = [check.id for check in found.checks if isinstance(check, Check)]
    for id_ in recheck:
        if id_ not in there:
            listed = ", ".join(there) or "none"
            raise ConfigError(f"--recheck {id_}: {name} has no such check; there are {listed}")
    place = find_place(project, chain, wanted)
    refuse_existing(place.path)
    refuse_useless(chain, runbook, found, place.id, below=[place.down] if place.down else [])
    written = contract_revision(place, name, dropped, recheck, _engine(project, engine))
    ends = ends_with(chain, runbook, found, dropped)
    edited = draft_runbook(runbook, found, place.id, ends)
    if counts is not None:
        source = read_text(runbook.path)
        text = with_disuse_check(edited[0].text if edited else source, found, place.id, counts=counts)
        edited = [Draft(Path(runbook.path), text, replaces=source)]
    return Contracted(place.id, runbook, found, (Draft(place.path, written), *edited), ends)


def draft_runbook(runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> list[Draft]:
    """Draft the runbook with its new `opens` and `until`; nothing if the revision's file suffices."""
    said_by_file = [] if phase.opens or phase.until else [phase.name]
    edited = [name for name in ends if name not in said_by_file]
    if not edited and not phase.opens:
        return []
    source = read_text(runbook.path)
    return [Draft(Path(runbook.path), opened(source, runbook, phase, revision, edited), replaces=source)]


def refuse_useless(
    chain: Chain, runbook: Runbook, phase: Phase, revision: str, *, below: Iterable[str]
) -> None:
    """Refuse a phase whose gate could never open: no blocking check, or an end below the new revision."""
    if not is_blocking(phase):
        raise RunbookError(runbook.path, phase.line, f"phase {phase.name} {unblocking([revision])}")
    (opens,) = (each.opens for each in fill_opens(chain, runbook).phases if each.name == phase.name)
    if phase.until in chain.ancestors(below) and phase.until not in opens:
        raise ConfigError(
            f"{runbook.path}:{phase.line}: phase {phase.name} ended with revision {phase.until}, so its gate "
            "could never open: name a phase that still applies"
        )


def find_phase(directory: Path, name: str) -> tuple[Runbook, Phase]:
    """Find `RUNBOOK/PHASE` among the runbooks of a project."""
    book, _, phase = name.partition("/")
    if not book or not phase:
        raise ConfigError(f"{name} names no phase: write RUNBOOK/PHASE")
    runbook = named_runbook(book, directory)
    for each in runbook.phases:
        if each.name == phase:
            return runbook, each
    there = ", ".join(each.name for each in runbook.phases)
    raise ConfigError(f"{runbook.path} has no phase {phase}; there are {there}")


def ends_with(chain: Chain, runbook: Runbook, phase: Phase, dropped: Dropped) -> tuple[str, ...]:
    """List the phases that the contract ends: its own, and earlier ones that read the dropped objects.

    A phase with a written `until` keeps it, unless that is a contract opened by the phase itself.
    """
    reads = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, dropped.names))})(?!\w)")
    ended = []
    for each in fill_opens(chain, runbook).phases[: runbook.phases.index(phase) + 1]:
        queries = [part.sql for part in (*each.checks, *each.views) if not isinstance(part, SignOff)]
        opens_it = each.name == phase.name and each.until in (None, *each.opens)
        if opens_it or (each.until is None and any(map(reads.search, queries))):
            ended.append(each.name)
    return tuple(ended)


def _engine(project: Project, given: str | None) -> str | None:
    """Choose the database in a project with several."""
    there = engines_of(project)
    if given is not None and given not in there:
        known = (
            f"there are {', '.join(there)}" if there else "the revisions of this project take no engine_name"
        )
        raise ConfigError(f"--engine {given}: {known}")
    if given is None and len(there) > 1:
        raise ConfigError(
            f"this project migrates several databases, {', '.join(there)}: say with --engine in which one "
            "this goes"
        )
    return given or next(iter(there), None)


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
    lines = [f"opens: [{quoted(revision)}] for phase {phase.name}"] if phase.opens else []
    lines += [f"until: {quoted(revision)} for phase {name}" for name in ends]
    advice = f"the front matter cannot be edited safely: write {' and '.join(lines)} yourself"
    by_hand = RunbookError(runbook.path, phase.line, advice)
    if found is None:
        raise by_hand
    front = found["yaml"]
    edits = _edits(front, phase.name if phase.opens else None, quoted(revision), ends)
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


def _edits(front: str, opening: str | None, revision: str, ends: Sequence[str]) -> Iterator[Edit]:
    root = yaml.compose(front, Loader=yaml.SafeLoader)
    assert isinstance(root, MappingNode)
    (phases,) = (value for key, value in root.value if key.value == "phases")
    for key, node in phases.value:
        fields = {name.value: value for name, value in node.value} if isinstance(node, MappingNode) else {}
        if key.value in ends and "until" in fields:
            until = fields["until"]
            yield Edit(until.start_mark.index, until.end_mark.index, revision)
        elif key.value in ends:
            yield _added(node, front, f"until: {revision}")
        if key.value == opening:
            yield _appended(fields["opens"], front, revision)


def _appended(node: SequenceNode, front: str, item: str) -> Edit:
    """Append an item to a list, in brackets or on separate lines."""
    if node.flow_style:
        return _inside(node, front, item)
    found = re.compile(r"\r?\n").search(front, node.value[-1].end_mark.index)
    end = found.start() if found else len(front)
    return Edit(end, end, f"{_newline(front)}{' ' * node.start_mark.column}- {item}")


def _added(node: Node, front: str, field: str) -> Edit:
    """Add a field to a phase; use braces if it is empty."""
    if isinstance(node, ScalarNode):
        start, end = node.start_mark.index, node.end_mark.index
        return Edit(start, end, f"{' ' if front[start - 1] == ':' else ''}{{{field}}}")
    assert isinstance(node, MappingNode)
    if node.flow_style:
        return _inside(node, front, field)
    first = node.value[0][0].start_mark
    return Edit(first.index, first.index, f"{field}{_newline(front)}{' ' * first.column}")


def _inside(node: Node, front: str, entry: str) -> Edit:
    """Append an entry before the closing bracket or brace, with the separator that is missing."""
    end = node.end_mark.index - 1
    last = front[node.start_mark.index : end].rstrip()[-1]
    return Edit(end, end, f"{'' if last in '[{' else ' ' if last == ',' else ', '}{entry}")


def _newline(front: str) -> str:
    return "\r\n" if "\r\n" in front else "\n"
