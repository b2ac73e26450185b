"""Revisions and phases side by side: what has been done, what comes next, what is in its way."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipestate.chain.calls import Calls
from pipestate.chain.graph import Chain
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


@dataclass(frozen=True, slots=True)
class Plan:
    """Every revision of the chain, and one sentence: what to do now."""

    position: Position
    steps: tuple[Step, ...]
    advice: str


def plan(chain: Chain, report: Report, calls: Calls) -> Plan:
    """Put the gates that a run of verify found beside the revisions that they open."""
    position = chain.position((report.database.revision or "").split())
    steps = tuple(plan_of(chain, position, report))
    return Plan(position, steps, next_step(steps, report, calls))


def plan_of(chain: Chain, position: Position, report: Report) -> list[Step]:
    """List the revisions from the base to the head."""
    return [
        Step(
            revision.id,
            revision.title,
            revision.id in position.applied,
            tuple(
                GateState(f"{runbook.name}/{phase.name}", phase.gate)
                for runbook, phase in report.phases()
                if revision.id in phase.opens
            ),
        )
        for revision in chain
    ]


def next_step(steps: Sequence[Step], report: Report, calls: Calls) -> str:
    """Say in one sentence what to do now."""
    waiting = [step for step in steps if not step.applied]
    closed = [
        f"{runbook.name}/{phase.name}" for runbook, phase in report.phases() if phase.gate is Gate.CLOSED
    ]
    fix = f"fix {', '.join(closed)}: {calls.pipestate('verify')}"
    if not waiting:
        return fix if closed else "nothing: the database is at head"
    first = waiting[0]
    shut = [gate.name for gate in first.gates if gate.state is not Gate.OPEN]
    if shut:
        return f"{first.revision} waits for {', '.join(shut)}: {calls.pipestate(f'gate {shut[0]}')}"
    if first.gates:
        return f"the gate is open: {calls.alembic('upgrade head')}"
    if closed:
        return fix
    reach = first.revision
    for step in waiting:
        if step.gates:
            break
        reach = step.revision
    return calls.alembic(f"upgrade {reach}")
