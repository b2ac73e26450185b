"""Which phases and checks are asked at the database's revision."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipestate.chain.position import Place, Position
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


def find_phases(runbooks: Sequence[Runbook], name: str | None) -> list[tuple[Runbook, Phase]]:
    """All phases, or the one that is addressed as `phase` or `runbook/phase`."""
    every = [(runbook, phase) for runbook in runbooks for phase in runbook.phases]
    if name is None:
        return every
    found = [(runbook, phase) for runbook, phase in every if name in (phase.name, address(runbook, phase))]
    if len(found) > 1:
        candidates = ", ".join(address(runbook, phase) for runbook, phase in found)
        raise ConfigError(f"phase {name} is ambiguous: say which of {candidates}")
    if not found:
        known = ", ".join(address(runbook, phase) for runbook, phase in every)
        raise ConfigError(f"there is no phase {name}; there are {known}")
    return found


def address(runbook: Runbook, phase: Phase) -> str:
    return f"{runbook.name}/{phase.name}"


def ask(runbook: Runbook, phase: Phase, position: Position, dialect: str) -> list[Asked]:
    """The phase's checks in order; each with the reason where it is skipped."""
    _refuse_unknown_revisions(runbook, phase, position)
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


def _refuse_unknown_revisions(runbook: Runbook, phase: Phase, position: Position) -> None:
    named = {phase.from_, phase.until, *phase.opens}
    named |= {revision for check in phase.checks for revision in (check.from_, check.until)}
    unknown = sorted(
        revision for revision in named if revision is not None and revision not in position.known
    )
    if unknown:
        raise ConfigError(
            f"{runbook.path}:{phase.line}: phase {phase.name} names revision {', '.join(unknown)}, which the chain "
            "does not have: fix the runbook, or name the right alembic.ini with --config"
        )
