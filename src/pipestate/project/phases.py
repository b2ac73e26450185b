"""Runbooks of a project, and their phases beside the chain."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.core.text import from_here
from pipestate.project.find import Calls, Named, Project
from pipestate.project.graph import Chain
from pipestate.project.revision_files import read_chain
from pipestate.runbook.files import (
    all_runbook_files,
    find_runbooks,
    named_runbook,
    runbook_files,
    runbooks_at,
)
from pipestate.runbook.lint import examine
from pipestate.runbook.model import Check, Finding, Phase, Runbook, View, is_variant
from pipestate.runbook.parse import is_blocking, unblocking


def locate_runbooks(project: Project, names: Sequence[str], phases: Sequence[str] = ()) -> list[Runbook]:
    """Load the named runbooks, else the default ones and those of the phases `RUNBOOK/PHASE`.

    If every phase names its runbook, only those runbooks are read.
    """
    directory = project.runbooks
    if names:
        return find_runbooks(names, directory)
    require_runbooks(project)
    named = {phase.partition("/")[0] for phase in phases if "/" in phase}
    default = [] if named and all("/" in phase for phase in phases) else find_runbooks([], directory)
    others = [named_runbook(name, directory) for name in named - {book.name for book in default}]
    return sorted([*default, *others], key=lambda book: book.path)


def load_runbooks(project: Project, address: str, *, below: int = 1) -> list[Runbook]:
    """Load the runbook of an address such as `orders/ready`, else every runbook of the project."""
    require_runbooks(project)
    return runbooks_at(address, project.runbooks, below=below)


def require_runbooks(project: Project) -> None:
    """Refuse a project without a runbook, and name the command that writes one."""
    if not runbook_files(project.runbooks):
        init = Calls(project.named).pipestate("init NAME")
        raise ConfigError(f"this project has no runbook yet: `{init}` writes one to begin with")


# Runbooks beside the chain: the revisions that each phase opens, and wrong revisions in a runbook.
#
# A phase opens the revisions with its gate in their files. If its front matter has `opens`, that list decides.


def lint(files: Sequence[Path], project: Project | None) -> list[Finding]:
    """Lint these files; compare files of the project's runbook directory with its chain as well."""
    home = project.runbooks.resolve() if project is not None else None
    findings, clean = [], []
    for page in all_runbook_files(files):
        runbook, found = examine(page)
        findings += found
        if runbook is not None and not found and page.resolve().parent == home:
            clean.append(runbook)
    if project is not None and clean:
        findings += wrong_revisions(read_chain(project), clean)
    return findings


def wrong_revisions(chain: Chain, runbooks: Iterable[Runbook]) -> list[Finding]:
    """Find references to missing revisions, and revisions in `opens` that lack this gate."""
    return [
        finding
        for runbook in runbooks
        for finding in (
            *_missing_phases(chain, runbook),
            *(each for phase in runbook.phases for each in _of_phase(chain, runbook, phase)),
        )
    ]


def _of_phase(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    yield from unknown_revisions(runbook, phase, known=chain)
    yield from _unasked(chain, runbook, phase)
    yield from _unlisted(chain, runbook, phase)
    yield from _unblocking(chain, runbook, phase)


def resolve_opens(chain: Chain, runbooks: Iterable[Runbook], named: Named) -> list[Runbook]:
    """Fill in the revisions that each phase opens; raise ConfigError if a runbook names a wrong one.

    A gate without a revision would look like an effective gate.
    """
    books = list(runbooks)
    if found := wrong_revisions(chain, books):
        lint = Calls(named).pipestate("runbook lint")
        more = f" ({len(found) - 1} more: {lint})" if len(found) > 1 else ""
        raise ConfigError(f"{found[0]}{more}")
    return [fill_opens(chain, book) for book in books]


def fill_opens(chain: Chain, runbook: Runbook) -> Runbook:
    """Fill in a missing `opens`; a phase without `until` ends with the last revision that it opens.

    If the revisions are on several branches, none is the last, and the phase continues.
    """
    phases = []
    for phase in runbook.phases:
        opens = tuple(each.id for each in chain if each.gates and asks(each.gates, runbook, phase))
        if opens and not phase.opens:
            ends = phase.until is None and chain.ancestors(opens[-1:]).issuperset(opens)
            phase = replace(phase, opens=opens, until=opens[-1] if ends else phase.until)
        phases.append(phase)
    return replace(runbook, phases=tuple(phases))


def unknown_revisions(runbook: Runbook, phase: Phase, known: Container[str]) -> list[Finding]:
    """Find unknown revisions in a phase's front matter and in its blocks."""
    found = [
        Finding(
            runbook.path, phase.line, f"phase {phase.name} {says}: correct `{key}` in the front matter, {_OR}"
        )
        for key, says in _unknown_to_phase(phase, known)
    ]
    for block in (*phase.checks, *phase.views):
        for key, revision in (("from", block.from_), ("until", block.until)):
            if revision is not None and revision not in known:
                found += _in_block(block, f"`-- {key}: {revision}` names {_MISSING}: correct it, {_OR}")
    return sorted(set(found))


_MISSING = "a revision that the chain does not have"
_OR = "or name the right alembic.ini with --config"


def _unknown_to_phase(phase: Phase, known: Container[str]) -> Iterator[tuple[str, str]]:
    said = [("from", "begins at", phase.from_), ("until", "ends at", phase.until)]
    said += [("opens", "opens", revision) for revision in phase.opens]
    for key, verb, revision in said:
        if revision is not None and revision not in known:
            yield key, f"{verb} {revision}, {_MISSING}"


def _in_block(block: object, what: str) -> Iterator[Finding]:
    """Report a finding at the block in the runbook: a variant inherits its revisions from there."""
    if isinstance(block, Check | View) and not is_variant(block):
        path, _, line = block.block.rpartition(":")
        yield Finding(path, int(line), f"{'view' if isinstance(block, View) else 'check'} {block.id}: {what}")


def _unasked(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    for name in phase.opens:
        if name in chain and not asks(chain.by_id[name].gates, runbook, phase):
            where = f"{from_here(chain.by_id[name].path)}:{chain.by_id[name].line}"
            yield Finding(
                runbook.path,
                phase.line,
                f'phase {phase.name} opens {name}, but {where} does not ask this gate: write gate("{runbook.name}/'
                f'{phase.name}", ...) or Contract(...) there, with the phase as a literal, or take {name} out of `opens`',
            )


def _missing_phases(chain: Chain, runbook: Runbook) -> Iterator[Finding]:
    """Find revisions with a gate on a phase that their runbook lacks."""
    for revision in chain:
        for gate in revision.gates:
            book, slash, phase = gate.partition("/")
            if slash and book == runbook.name and runbook.phase(phase) is None:
                there = ", ".join(each.name for each in runbook.phases)
                yield Finding(
                    str(from_here(revision.path)),
                    revision.line,
                    f"revision {revision.id} asks the gate {gate}, but {runbook.path} has no phase {phase}; there are "
                    f"{there}: name one of them",
                )


def _unlisted(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    """Find revisions with a gate on a phase that omits them from `opens`: the gate would refuse them."""
    for revision in chain if phase.opens else ():
        if f"{runbook.name}/{phase.name}" in revision.gates and revision.id not in phase.opens:
            yield Finding(
                runbook.path,
                phase.line,
                f"{from_here(revision.path)}:{revision.line} asks phase {phase.name}, whose `opens` does not have "
                f"{revision.id}: add it there, or take `opens` out",
            )


def _unblocking(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    """Find a gated phase without a blocking check; lint itself reports a phase with a written `opens`."""
    asking = [each.id for each in chain if each.gates and asks(each.gates, runbook, phase)]
    if asking and not phase.opens and not is_blocking(phase):
        yield Finding(runbook.path, phase.line, f"phase {phase.name} {unblocking(asking)}")


def asks(gates: Container[str], runbook: Runbook, phase: Phase) -> bool:
    """Tell whether one of these gates, read from a revision's file, belongs to the phase."""
    return phase.name in gates or f"{runbook.name}/{phase.name}" in gates
