"""Runbooks of a project, and their phases beside the migrations."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.core.text import from_here
from pipestate.project.find import Calls, Named, Project
from pipestate.project.graph import Migrations
from pipestate.project.revision_files import has_gate_of, read_migrations
from pipestate.runbook.files import (
    all_runbook_files,
    every_runbook,
    find_runbooks,
    named_runbook,
    runbook_files,
    runbooks_at,
)
from pipestate.runbook.lint import examine, unknown_revisions
from pipestate.runbook.model import Finding, Phase, Runbook
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
    books = sorted([*default, *others], key=lambda book: book.path)
    for bare in (
        phase for phase in phases if "/" not in phase and not any(book.phase(phase) for book in books)
    ):
        if found := [book.name for book in every_runbook(directory) if book.phase(bare)]:
            raise ConfigError(f"no default runbook has a phase {bare}: write --phase {found[0]}/{bare}")
    return books


def load_runbooks(project: Project, address: str, *, below: int = 1) -> list[Runbook]:
    """Load the runbook of an address such as `orders/ready`, else every runbook of the project."""
    require_runbooks(project)
    return runbooks_at(address, project.runbooks, below=below)


def require_runbooks(project: Project) -> None:
    """Refuse a project without a runbook, and name the command that writes one."""
    if not runbook_files(project.runbooks):
        init = Calls(project.named).pipestate("init NAME")
        raise ConfigError(f"this project has no runbook yet: `{init}` writes one to begin with")


# Runbooks beside the migrations: the revisions that each phase opens, and wrong revisions in a runbook.
#
# A phase opens the revisions with its gate in their files. If its front matter has `opens`, that decides.


def lint(files: Sequence[Path], project: Project | None) -> list[Finding]:
    """Lint these files; compare files of the project's runbook directory with its migrations as well."""
    home = project.runbooks.resolve() if project is not None else None
    findings, clean = [], []
    for page in all_runbook_files(files):
        runbook, found = examine(page)
        findings += found
        if runbook is not None and not found and page.resolve().parent == home:
            clean.append(runbook)
    if project is not None and clean:
        findings += wrong_revisions(read_migrations(project), clean)
    return findings


def wrong_revisions(migrations: Migrations, runbooks: Iterable[Runbook]) -> list[Finding]:
    """Find references to missing revisions, and revisions in `opens` that lack this gate."""
    found: list[Finding] = []
    for runbook in runbooks:
        found += _missing_phases(migrations, runbook)
        for phase in runbook.phases:
            found += unknown_revisions(runbook, phase, known=migrations)
            found += _not_matching(migrations, runbook, phase)
    return found


def resolve_opens(migrations: Migrations, runbooks: Iterable[Runbook], named: Named) -> list[Runbook]:
    """Fill in the revisions that each phase opens; raise ConfigError if a runbook names a wrong one.

    A gate without a revision would look like an effective gate.
    """
    books = list(runbooks)
    if found := wrong_revisions(migrations, books):
        lint = Calls(named).pipestate("runbook lint")
        more = f" ({len(found) - 1} more: {lint})" if len(found) > 1 else ""
        raise ConfigError(f"{found[0]}{more}")
    return [fill_opens(migrations, book) for book in books]


def fill_opens(migrations: Migrations, runbook: Runbook) -> Runbook:
    """Fill in a missing `opens`; a phase without `until` ends with the last revision that it opens.

    If the revisions are on several branches, none is the last, and the phase continues.
    """
    phases = []
    for phase in runbook.phases:
        opens = tuple(
            each.id for each in migrations if each.gates and has_gate_of(each.gates, runbook, phase)
        )
        if opens and not phase.opens:
            ends = phase.until is None and migrations.ancestors(opens[-1:]).issuperset(opens)
            phase = replace(phase, opens=opens, until=opens[-1] if ends else phase.until)
        phases.append(phase)
    return replace(runbook, phases=tuple(phases))


def _not_matching(migrations: Migrations, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    """Find a difference between the revisions that a phase opens and those that check its gate.

    The gate would refuse a revision that `opens` omits. Lint itself reports a phase with a written `opens`
    but without a blocking check.
    """
    address, gated_here = f"{runbook.name}/{phase.name}", []
    for revision in migrations:
        where = f"{from_here(revision.path)}:{revision.line}"
        gated = has_gate_of(revision.gates, runbook, phase)
        gated_here += [revision.id] if gated else []
        if revision.id in phase.opens and not gated:
            yield Finding(
                runbook.path,
                phase.line,
                f"phase {phase.name} opens {revision.id}, but {where} does not check this gate: write "
                f'gate("{address}", ...) or Contract(...) there, with the phase as a literal, or take '
                f"{revision.id} out of `opens`",
            )
        elif phase.opens and address in revision.gates and revision.id not in phase.opens:
            yield Finding(
                runbook.path,
                phase.line,
                f"{where} checks phase {phase.name}, whose `opens` does not have {revision.id}: add it there, "
                "or take `opens` out",
            )
    if gated_here and not phase.opens and not is_blocking(phase):
        yield Finding(runbook.path, phase.line, f"phase {phase.name} {unblocking(gated_here)}")


def _missing_phases(migrations: Migrations, runbook: Runbook) -> Iterator[Finding]:
    """Find revisions with a gate on a phase that their runbook lacks."""
    for revision in migrations:
        for gate in revision.gates:
            book, slash, phase = gate.partition("/")
            if slash and book == runbook.name and runbook.phase(phase) is None:
                there = ", ".join(each.name for each in runbook.phases)
                yield Finding(
                    str(from_here(revision.path)),
                    revision.line,
                    f"revision {revision.id} checks the gate {gate}, but {runbook.path} has no phase {phase}; "
                    f"there are {there}: name one of them",
                )
