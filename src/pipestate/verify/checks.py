"""Checks: those that apply at the database's revision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipestate.core.errors import ConfigError
from pipestate.plan.compile import CompiledCheck, compile_check
from pipestate.project.graph import Place, Position
from pipestate.runbook.lint import unknown_revisions
from pipestate.runbook.model import Check, Phase, Runbook, SignOff

Phases = Sequence[tuple[Runbook, Phase]]


@dataclass(frozen=True, slots=True)
class SelectedCheck:
    """One check, and the reason if it is skipped."""

    runbook: Runbook
    phase: Phase
    check: Check | SignOff
    skipped: str | None

    @property
    def source(self) -> str:
        """The `path:line` of its fence, or of the item of an `again:` or a sign-off."""
        return f"{self.runbook.path}:{self.check.line}"

    @property
    def block(self) -> str:
        """The `path:line` of its SQL."""
        return self.check.block or self.source

    @property
    def required(self) -> str:
        """The criterion, in the words of a report."""
        if isinstance(self.check, SignOff):
            return f"people >= {self.check.people}"
        return self.check.require.text

    def compiled(self, dialect: str) -> CompiledCheck:
        return compile_check(self.check, dialect, runbook=self.runbook.name, phase=self.phase.name)


def find_phases(
    runbooks: Sequence[Runbook], names: Sequence[str] = (), command: Callable[[str], str] = str
) -> list[tuple[Runbook, Phase]]:
    """List all phases, or those named as `phase` or `runbook/phase`; each once, in the runbooks' order.

    `command` writes the command line for a phase, for a name that several runbooks have.
    """
    every = [(runbook, phase) for runbook in runbooks for phase in runbook.phases]
    if not names:
        return every
    known = {f"{runbook.name}/{phase.name}": phase for runbook, phase in every}
    selected = set()
    for name in names:
        found = [address for address, phase in known.items() if name in (phase.name, address)]
        if len(found) > 1:
            candidates = " or ".join(f"`{command(address)}`" for address in found)
            raise ConfigError(f"{len(found)} runbooks have a phase {name}: write {candidates}")
        if not found:
            raise ConfigError(f"no phase is called {name}; the phases are {', '.join(known)}")
        selected.update(found)
    return [(runbook, phase) for runbook, phase in every if f"{runbook.name}/{phase.name}" in selected]


def select_checks(runbook: Runbook, phase: Phase, position: Position, dialect: str) -> list[SelectedCheck]:
    """List the checks of a phase in order, each with the reason if it is skipped."""
    for finding in unknown_revisions(runbook, phase, known=position.known):
        raise ConfigError(str(finding))
    here = {check.id: check for check in phase.checks_for(dialect)}
    selected: dict[str, SelectedCheck] = {}
    for written in phase.checks:
        check = here.get(written.id, written)
        why = _why_skipped(phase, check, position)
        if written.id not in here:
            why = f"the runbook says that SQLite cannot hold this state: {written.dialect} alone evaluates it"
        selected[written.id] = SelectedCheck(runbook, phase, check, why)
    return list(selected.values())


def _why_skipped(phase: Phase, check: Check | SignOff, position: Position) -> str | None:
    for what, scope in (("its phase", phase), ("it", check)):
        place = position.place(scope.from_, scope.until)
        if place is Place.NOT_STARTED:
            return f"{what} begins at revision {scope.from_}, the database is at {position.current or 'base'}"
        if place is Place.FINISHED:
            return f"{what} ended at revision {scope.until}, the database is at {position.current}"
    return None
