"""Which phases and checks are asked at the database's revision."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipestate.chain.position import Place, Position
from pipestate.chain.revisions import unknown_revisions
from pipestate.errors import ConfigError
from pipestate.runbook.model import Check, Phase, Runbook, SignOff


@dataclass(frozen=True, slots=True)
class Asked:
    """One check to be run, or why it is not."""

    runbook: Runbook
    phase: Phase
    check: Check | SignOff
    skipped: str | None

    @property
    def source(self) -> str:
        """Where the page asks it: the fence, or the item of an `again:` or a sign-off."""
        return f"{self.runbook.path}:{self.check.line}"

    @property
    def block(self) -> str:
        """Where its SQL stands."""
        return self.check.block or self.source


def find_phases(runbooks: Sequence[Runbook], names: Sequence[str] = ()) -> list[tuple[Runbook, Phase]]:
    """List all phases, or those that are addressed as `phase` or `runbook/phase`; each once, in the pages' order."""
    every = [(runbook, phase) for runbook in runbooks for phase in runbook.phases]
    if not names:
        return every
    asked = {address(*_find_phase(every, name)) for name in names}
    return [(runbook, phase) for runbook, phase in every if address(runbook, phase) in asked]


def _find_phase(every: Sequence[tuple[Runbook, Phase]], name: str) -> tuple[Runbook, Phase]:
    found = [(runbook, phase) for runbook, phase in every if name in (phase.name, address(runbook, phase))]
    if len(found) > 1:
        candidates = ", ".join(address(runbook, phase) for runbook, phase in found)
        raise ConfigError(f"phase {name} is ambiguous: say which of {candidates}")
    if not found:
        known = ", ".join(address(runbook, phase) for runbook, phase in every)
        raise ConfigError(f"there is no phase {name}; there are {known}")
    return found[0]


def address(runbook: Runbook, phase: Phase) -> str:
    return f"{runbook.name}/{phase.name}"


def ask(runbook: Runbook, phase: Phase, position: Position, dialect: str) -> list[Asked]:
    """The phase's checks in order; each with the reason where it is skipped."""
    for finding in unknown_revisions(runbook, phase, known=position.known):
        raise ConfigError(str(finding))
    here = {check.id: check for check in phase.checks_for(dialect)}
    asked: dict[str, Asked] = {}
    for written in phase.checks:
        check = here.get(written.id, written)
        why = _why_skipped(phase, check, position)
        if written.id not in here:
            why = f"the page says that SQLite cannot hold this state: it is asked on {written.dialect} only"
        asked[written.id] = Asked(runbook, phase, check, why)
    return list(asked.values())


def _why_skipped(phase: Phase, check: Check | SignOff, position: Position) -> str | None:
    for what, scope in (("its phase", phase), ("it", check)):
        place = position.place(scope.from_, scope.until)
        if place is Place.AHEAD:
            return f"{what} begins at revision {scope.from_}, the database is at {position.current or 'base'}"
        if place is Place.PAST:
            return f"{what} ended at revision {scope.until}, the database is at {position.current}"
    return None
