"""What a report says first: which gates are open, and when the others can be. Pure."""

from dataclasses import dataclass

from pipestate.plural import many
from pipestate.standing.model import PhaseStanding, RunbookStanding, Standing
from pipestate.verify.report import Gate


@dataclass(frozen=True, slots=True)
class Summary:
    """`state` is open, closed, or none where no gate is asked."""

    state: str
    sentence: str


def summarise(standing: Standing) -> Summary:
    """Say in one sentence how the gates stand."""
    asked = [(book, phase) for book, phase in standing.phases() if phase.applies]
    closed = [pair for pair in asked if pair[1].gate is Gate.CLOSED]
    if not asked:
        return Summary("none", _nothing(standing))
    if not closed:
        gates = (
            "The gate that applies now is"
            if len(asked) == 1
            else f"All {len(asked)} gates that apply now are"
        )
        return Summary("open", f"{gates} open")
    names = ", ".join(_name(standing, book, phase) for book, phase in closed)
    return Summary("closed", f"{len(closed)} of {many(len(asked), 'gate')} closed: {names}")


def _nothing(standing: Standing) -> str:
    if not standing.runbooks:
        return "No runbook here is a default one"
    return f"No phase applies at revision {standing.database.revision or 'base'}"


def _name(standing: Standing, book: RunbookStanding, phase: PhaseStanding) -> str:
    return phase.name if len(standing.runbooks) == 1 else f"{book.name}/{phase.name}"
