"""A contract for somebody's chain: its revision, and the page that opens it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipestate.chain.graph import Chain
from pipestate.chain.project import Project
from pipestate.errors import ConfigError
from pipestate.runbook.files import read_text
from pipestate.runbook.find import named_runbook
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.scaffold.draft import Draft, refuse_existing
from pipestate.scaffold.going import Going
from pipestate.scaffold.opens import opened
from pipestate.scaffold.place import WantedRevision, find_place
from pipestate.scaffold.revision import contract_revision, engines_of


@dataclass(frozen=True, slots=True)
class Contracted:
    """What is to be written; the gate that the revision asks, and the phases that end with it."""

    revision: str
    runbook: Runbook
    phase: Phase
    drafts: tuple[Draft, ...]
    ends: tuple[str, ...]

    @property
    def stays(self) -> tuple[str, ...]:
        """The phases before the gate that are still asked when the contract is done."""
        before = self.runbook.phases[: self.runbook.phases.index(self.phase)]
        return tuple(each.name for each in before if each.until is None and each.name not in self.ends)


def draft_contract(
    project: Project,
    chain: Chain,
    phase: str,
    going: Going,
    wanted: WantedRevision,
    *,
    recheck: Sequence[str] = (),
    engine: str | None = None,
) -> Contracted:
    """Draft the revision and the edited page; ConfigError or RunbookError where that cannot be."""
    runbook, found = find_phase(project.runbooks, phase)
    name = f"{runbook.name}/{found.name}"
    _refuse_unknown_checks(found, recheck, name)
    place = find_place(project, chain, wanted)
    refuse_existing(place.path)
    written = contract_revision(place, name, going, recheck, _engine(project, engine))
    ends = ends_with(runbook, found, going)
    page = draft_page(runbook, found, place.id, ends)
    return Contracted(place.id, runbook, found, (Draft(place.path, written), page), ends)


def draft_page(runbook: Runbook, phase: Phase, revision: str, ends: Sequence[str]) -> Draft:
    """Draft the page with one more revision in `opens`."""
    source = read_text(runbook.path)
    return Draft(Path(runbook.path), opened(source, runbook, phase, revision, ends), replaces=source)


def find_phase(directory: Path, name: str) -> tuple[Runbook, Phase]:
    """Find `RUNBOOK/PHASE` among the pages of a project."""
    book, _, phase = name.partition("/")
    if not book or not phase:
        raise ConfigError(f"{name} names no phase: write RUNBOOK/PHASE")
    runbook = named_runbook(book, directory)
    for each in runbook.phases:
        if each.name == phase:
            return runbook, each
    there = ", ".join(each.name for each in runbook.phases)
    raise ConfigError(f"{runbook.path} has no phase {phase}; there are {there}")


def ends_with(runbook: Runbook, phase: Phase, going: Going) -> tuple[str, ...]:
    """List the phases that the contract ends: its own, and those before it that read what goes.

    One with an `until` of its own keeps it, unless that is a contract which the phase opens itself.
    """
    place = runbook.phases.index(phase)
    return tuple(
        each.name
        for each in runbook.phases[: place + 1]
        if (each is phase and each.until in (None, *each.opens))
        or (each.until is None and _reads(each, going))
    )


def _reads(phase: Phase, going: Going) -> bool:
    names = "|".join(map(re.escape, going.names))
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
    """Choose the database of a project that has several."""
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
