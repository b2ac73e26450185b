"""Position and phases side by side: what has been done, what comes next, what is in its way."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipestate.chain.position import Position
from pipestate.verify.report import Gate, Report


@dataclass(frozen=True, slots=True)
class GateState:
    """A phase that stands before a revision."""

    name: str
    state: Gate


@dataclass(frozen=True, slots=True)
class Step:
    revision: str
    title: str
    applied: bool
    gates: tuple[GateState, ...]


def plan_of(chain: Sequence[tuple[str, str]], revisions: Position, report: Report) -> list[Step]:
    """From the base to the head. `chain` is (revision, title)."""
    return [
        Step(
            revision,
            title,
            revision in revisions.applied,
            tuple(
                GateState(f"{runbook.name}/{phase.name}", phase.gate)
                for runbook, phase in report.phases()
                if revision in phase.opens
            ),
        )
        for revision, title in chain
    ]


def next_step(steps: Sequence[Step], report: Report, alembic: str = "alembic") -> str:
    """One sentence: what to do now; `alembic` is how it is called."""
    waiting = [step for step in steps if not step.applied]
    closed = [
        f"{runbook.name}/{phase.name}" for runbook, phase in report.phases() if phase.gate is Gate.CLOSED
    ]
    if not waiting:
        return f"mend {', '.join(closed)}: pipestate verify" if closed else "nothing: the database is at head"
    first = waiting[0]
    shut = [gate.name for gate in first.gates if gate.state is not Gate.OPEN]
    if shut:
        return f"{first.revision} waits for {', '.join(shut)}: pipestate gate {shut[0]}"
    if first.gates:
        return f"the gate is open: {alembic} upgrade head"
    if closed:
        return f"mend {', '.join(closed)}: pipestate verify"
    reach = first.revision
    for step in waiting:
        if step.gates:
            break
        reach = step.revision
    return f"{alembic} upgrade {reach}"
