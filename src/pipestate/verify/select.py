"""Phases and checks selected for the database's revision. A sign-off becomes a check: SQL on the ledger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pipestate.core.errors import ConfigError
from pipestate.project.graph import Place, Position
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.lint import unknown_revisions
from pipestate.runbook.model import Check, Evidence, Phase, Runbook, SignOff
from pipestate.verify.judge import Judgement
from pipestate.verify.report import Outcome

Phases = Sequence[tuple[Runbook, Phase]]
FOR_GOOD = timedelta(days=3650)  # a sign-off with this validity never expires in practice
VIEW = {"postgresql": "pipestate.sign_off", "sqlite": "pipestate_sign_off"}


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


def find_phases(
    runbooks: Sequence[Runbook], names: Sequence[str] = (), command: Callable[[str], str] = str
) -> list[tuple[Runbook, Phase]]:
    """List all phases, or those named as `phase` or `runbook/phase`; each once, in the runbooks' order.

    `command` writes the command line for a phase, for a name that several runbooks have.
    """
    every = [(runbook, phase) for runbook in runbooks for phase in runbook.phases]
    if not names:
        return every
    selected = {address(*_find_phase(every, name, command)) for name in names}
    return [(runbook, phase) for runbook, phase in every if address(runbook, phase) in selected]


def _find_phase(every: Phases, name: str, command: Callable[[str], str]) -> tuple[Runbook, Phase]:
    found = [(runbook, phase) for runbook, phase in every if name in (phase.name, address(runbook, phase))]
    if len(found) > 1:
        candidates = " or ".join(f"`{command(address(runbook, phase))}`" for runbook, phase in found)
        raise ConfigError(f"{len(found)} runbooks have a phase {name}: write {candidates}")
    if not found:
        known = ", ".join(address(runbook, phase) for runbook, phase in every)
        raise ConfigError(f"no phase is called {name}; the phases are {known}")
    return found[0]


def address(runbook: Runbook, phase: Phase) -> str:
    return f"{runbook.name}/{phase.name}"


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
        if place is Place.AHEAD:
            return f"{what} begins at revision {scope.from_}, the database is at {position.current or 'base'}"
        if place is Place.PAST:
            return f"{what} ended at revision {scope.until}, the database is at {position.current}"
    return None


def signoff_check(signoff: SignOff, dialect: str, *, runbook: str, phase: str) -> Check:
    """Make the check that counts the people who signed this text for this phase, recently enough.

    The view gives no age to a future time, so such a sign-off never counts. Ids and names are of `[a-z0-9-]`: safe in
    SQL.
    """
    seconds = int(signoff.valid_for.total_seconds())
    words = (
        f"FROM {VIEW[dialect]} WHERE runbook = '{runbook}' AND phase = '{phase}' AND name = '{signoff.id}' "
        f"AND coalesce(text_sha256, '{signoff.text_sha256}') = '{signoff.text_sha256}'"
    )
    return Check(
        id=signoff.id,
        line=signoff.line,
        sql=f"SELECT count(DISTINCT lower(trim(person))) AS people {words} AND age_seconds < {seconds}",
        require=parse_requirement(f"people >= {signoff.people}"),
        evidence=(
            Evidence(
                (signoff.id,),
                signoff.line,
                f"SELECT person, signed_at, note {words} ORDER BY signed_at DESC LIMIT 3",
            ),
        ),
    )


def explain_signoff(signoff: SignOff, judgement: Judgement, *, runbook: str, phase: str) -> Judgement:
    """Explain the judgement in words, with the command that records a sign-off."""
    within = f" within {written(signoff.valid_for)}" if signoff.valid_for < FOR_GOOD else ""
    if judgement.outcome is Outcome.PASSED:
        by = f" by {signoff.people} people" if signoff.people > 1 else ""
        return Judgement(judgement.outcome, judgement.observed, f"signed off{by}{within}")
    if judgement.outcome is Outcome.FAILED:
        so_far = (
            f" by {judgement.observed.get('people')} of {signoff.people} people" if signoff.people > 1 else ""
        )
        how = f"pipestate attest {runbook}/{phase}/{signoff.id} --by YOU"
        missing = f"signed off{so_far}" if so_far else "not signed off"
        return Judgement(judgement.outcome, judgement.observed, f"{missing}{within}: {how}")
    return judgement


def written(duration: timedelta) -> str:
    """
    >>> written(timedelta(hours=24)), written(timedelta(days=7)), written(timedelta(minutes=30))
    ('24h', '7d', '30m')
    """
    minutes = int(duration.total_seconds() // 60)
    if minutes % (24 * 60) == 0 and minutes > 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
