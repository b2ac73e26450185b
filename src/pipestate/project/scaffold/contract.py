"""Drafts of a contract and of `init`: revision, runbook, and a check for proof of disuse."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from pipestate.core.errors import ConfigError, RunbookError
from pipestate.core.text import from_here
from pipestate.project.find import Project
from pipestate.project.graph import Chain, Revision
from pipestate.project.phases import fill_opens
from pipestate.project.scaffold.draft import Draft, refuse_existing
from pipestate.project.scaffold.edits import opened
from pipestate.project.scaffold.revision import (
    Dropped,
    WantedRevision,
    contract_revision,
    engines_of,
    find_place,
    ledger_revision,
)
from pipestate.project.syntax import read_source
from pipestate.runbook.files import named_runbook, read_text
from pipestate.runbook.markdown import Heading, blocks
from pipestate.runbook.model import Check, Phase, Runbook, is_id
from pipestate.runbook.parse import is_blocking, unblocking

CHECK = """
```sql
-- check: disused-{revision}
-- dialect: postgresql
{level}-- require: days_unused >= 7
SELECT days_unused, unused_since, why, standbys FROM pipestate.disuse WHERE revision = '{revision}';
```

No statement that this contract breaks has run for a week: `pipestate compat --record` finds them, and
`pipestate observe` counts their calls. `why` says what began the count anew.{missing}
"""
MISSING = " This server has no\npg_stat_statements: create the extension, then take out `level`."


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
    _refuse_unknown_checks(found, recheck, name)
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
    """Refuse a phase with a gate that could never open: no blocking check, or an end below the new revision."""
    if not is_blocking(phase):
        raise RunbookError(runbook.path, phase.line, f"phase {phase.name} {unblocking([revision])}")
    (opens,) = (each.opens for each in fill_opens(chain, runbook).phases if each.name == phase.name)
    if phase.until in chain.ancestors(below) and phase.until not in opens:
        raise ConfigError(
            f"{runbook.path}:{phase.line}: phase {phase.name} ended with revision {phase.until}, so its gate could never "
            "open: name a phase that still applies"
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
    place = runbook.phases.index(phase)
    filled = fill_opens(chain, runbook).phases
    return tuple(
        each.name
        for each in filled[: place + 1]
        if (each.name == phase.name and each.until in (None, *each.opens))
        or (each.until is None and _reads(each, dropped))
    )


def _reads(phase: Phase, dropped: Dropped) -> bool:
    names = "|".join(map(re.escape, dropped.names))
    queries = [check.sql for check in phase.checks if isinstance(check, Check)]
    queries += [view.sql for view in phase.views]
    return any(re.search(rf"(?<!\w)(?:{names})(?!\w)", query) for query in queries)


def _refuse_unknown_checks(phase: Phase, ids: Sequence[str], name: str) -> None:
    there = [check.id for check in phase.checks if isinstance(check, Check)]
    for id_ in ids:
        if id_ not in there:
            raise ConfigError(
                f"--recheck {id_}: {name} has no such check; there are {', '.join(there) or 'none'}"
            )


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
            f"this project migrates several databases, {', '.join(there)}: say with --engine in which one this goes"
        )
    return given or next(iter(there), None)


# Files of `init`: a runbook skeleton, and the ledger in the project's chain.


MESSAGE = "pipestate ledger"
_INSTALLS = re.compile(rb"^[^#\n]*\binstall_ledger\(", re.MULTILINE)
_PER_MIGRATION = re.compile(
    r"^[^#\n]*(?:\btransaction_per_migration\b|\bpipestate\.environment import run\b)", re.MULTILINE
)
_GUARDED = re.compile(r"^[^#\n]*\bpipestate\.environment\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Started:
    """Drafts to write, and steps left to a person."""

    name: str
    page: Path
    drafts: tuple[Draft, ...]
    ledger: str
    env: Path
    guarded: bool
    per_migration: bool


def draft_start(project: Project, chain: Chain, name: str, wanted: WantedRevision) -> Started:
    """Draft the runbook and, unless the chain already installs a ledger, its revision."""
    if not is_id(name):
        raise ConfigError(f"a runbook cannot be called {name}: write lower-case letters, digits and hyphens")
    page = runbooks_for(project) / f"{name}.md"
    refuse_existing(page)
    there = next(_installing(chain), None)
    ledger, drafts = (there.id, ()) if there is not None else _ledger(project, chain, wanted)
    env = project.scripts / "env.py"
    source = env.read_text(encoding="utf-8", errors="replace") if env.is_file() else ""
    return Started(
        name,
        page,
        (Draft(page, skeleton(name, ledger)), *drafts),
        ledger,
        env,
        bool(_GUARDED.search(source)),
        bool(_PER_MIGRATION.search(source)),
    )


def runbooks_for(project: Project) -> Path:
    """Return the present or future directory of runbooks: beside the configuration, if it names one chain."""
    if project.runbooks.is_dir() or project.config is None or _names_several_chains(project):
        return project.runbooks
    return from_here(project.config.resolve().parent / "runbooks")


def _names_several_chains(project: Project) -> bool:
    ini = project.configuration.ini if project.configuration else None
    sections = ini.sections() if ini else []
    return sum("script_location" in project.lines(section) for section in sections) > 1


def skeleton(name: str, ledger: str) -> str:
    """Write a runbook with placeholder checks that fail."""
    source = files("pipestate.project.scaffold").joinpath("skeleton.md").read_text(encoding="utf-8")
    return Template(source).substitute(name=name, ledger=ledger)


def _installing(chain: Chain) -> Iterator[Revision]:
    return (revision for revision in chain if _INSTALLS.search(read_source(revision.path)))


def _ledger(project: Project, chain: Chain, wanted: WantedRevision) -> tuple[str, tuple[Draft, ...]]:
    place = find_place(project, chain, wanted)
    refuse_existing(place.path)
    text = ledger_revision(place, by_engine=bool(engines_of(project)))
    return place.id, (Draft(place.path, text),)
