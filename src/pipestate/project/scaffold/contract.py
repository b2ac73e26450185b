"""Draft of a contract: its revision, its runbook, and a check for proof of disuse."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from yaml.nodes import CollectionNode, MappingNode

from pipestate.core.errors import ConfigError, RunbookError
from pipestate.project.find import Project
from pipestate.project.graph import Migrations
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


# A contract for a user's migrations: its revision, and the runbook if an earlier phase must end with it.


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
    migrations: Migrations,
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
    place = find_place(project, migrations, wanted)
    refuse_existing(place.path)
    refuse_useless(migrations, runbook, found, place.id, below=[place.down] if place.down else [])
    written = contract_revision(place, name, dropped, recheck, _engine(project, engine))
    ends = ends_with(migrations, runbook, found, dropped)
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
    migrations: Migrations, runbook: Runbook, phase: Phase, revision: str, *, below: Iterable[str]
) -> None:
    """Refuse a phase whose gate could never open: no blocking check, or an end below the new revision."""
    if not is_blocking(phase):
        raise RunbookError(runbook.path, phase.line, f"phase {phase.name} {unblocking([revision])}")
    (opens,) = (each.opens for each in fill_opens(migrations, runbook).phases if each.name == phase.name)
    if phase.until in migrations.ancestors(below) and phase.until not in opens:
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


def ends_with(migrations: Migrations, runbook: Runbook, phase: Phase, dropped: Dropped) -> tuple[str, ...]:
    """List the phases that the contract ends: its own, and earlier ones that read the dropped objects.

    A phase with a written `until` keeps it, unless that is a contract opened by the phase itself.
    """
    reads = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, dropped.names))})(?!\w)")
    ended = []
    for each in fill_opens(migrations, runbook).phases[: runbook.phases.index(phase) + 1]:
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
            f"this project migrates several databases, {', '.join(there)}: name the one for this contract with --engine"
        )
    return given or next(iter(there), None)


# Edit front matter in place: a phase with `opens` opens one more revision, others end with it.
#
# An edited phase is written on one line; all other bytes stay unchanged.


_FRONT = re.compile(r"\A\ufeff?---[^\n]*\n(?P<yaml>.*?\n)---", re.DOTALL)


def opened(source: str, runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> str:
    """Return the runbook with the phases in `ends` limited by `revision`; a written `opens` gets it, too.

    If the form of the front matter cannot be edited, RunbookError names the lines to write by hand.
    """
    meant = []
    for each in runbook.phases:
        opens = (*each.opens, revision) if each.name == phase.name and each.opens else each.opens
        meant.append(replace(each, opens=opens, until=revision if each.name in ends else each.until))
    edited = {new.name: new for new, old in zip(meant, runbook.phases, strict=True) if new != old}
    found = _FRONT.match(source)
    start, end = found.span("yaml") if found else (0, 0)
    changed = f"{source[:start]}{_with_phases(source[start:end], edited)}{source[end:]}"
    after, _ = collect(changed, runbook.path, read_beside(runbook.path))
    if after is None or [*map(_said, after.phases)] != [*map(_said, meant)]:
        lines = [f"{_written(each)} for phase {name}" for name, each in edited.items()]
        advice = f"the front matter cannot be edited safely: write {' and '.join(lines)} yourself"
        raise RunbookError(runbook.path, phase.line, advice)
    if faults := findings(changed, runbook.path, read_beside(runbook.path)):
        raise faults[0].error()
    return changed


def _with_phases(front: str, edited: Mapping[str, Phase]) -> str:
    """Write the edited phases; a phase with a comment inside, or an alias, stays unchanged."""
    root = yaml.compose(front, Loader=yaml.SafeLoader)
    fields = {key.value: value for key, value in root.value} if isinstance(root, MappingNode) else {}
    for key, node in reversed(fields["phases"].value if fields else ()):
        last = node
        while isinstance(last, CollectionNode) and not last.flow_style:
            last = last.value[-1][1] if isinstance(last, MappingNode) else last.value[-1]
        start, end = key.end_mark.index, last.end_mark.index
        if key.value in edited and start <= end and "#" not in front[start:end]:
            front = f"{front[:start]}: {_written(edited[key.value])}{front[end:]}"
    return front


def _written(phase: Phase) -> str:
    fields = {"from": phase.from_, "until": phase.until}
    written = [f"{name}: {quoted(revision)}" for name, revision in fields.items() if revision]
    written += [f"opens: [{', '.join(map(quoted, phase.opens))}]"] if phase.opens else []
    return f"{{{', '.join(written)}}}"


def _said(phase: Phase) -> tuple[object, ...]:
    return phase.name, phase.from_, phase.until, phase.opens
