"""Revisions with their phases: applied ones, the next one, and the gates before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipestate.project.find import Calls
from pipestate.project.graph import Migrations, ends, next_batch
from pipestate.verify.report import DatabaseInfo, Gate, Report


@dataclass(frozen=True, slots=True)
class GateState:
    """A phase that gates a revision."""

    phase: str
    gate: Gate


@dataclass(frozen=True, slots=True)
class PlannedRevision:
    """A revision, and the gates before it."""

    revision: str
    title: str
    applied: bool
    gates: tuple[GateState, ...]

    @property
    def shut(self) -> tuple[str, ...]:
        """The gates before this revision that are not open."""
        return tuple(gate.phase for gate in self.gates if gate.gate is not Gate.OPEN)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Every revision, and one sentence with the next step."""

    database: DatabaseInfo
    steps: tuple[PlannedRevision, ...]
    advice: str


def plan(migrations: Migrations, report: Report, calls: Calls) -> MigrationPlan:
    """Combine the gates of a verify run with the revisions that they open."""
    position = migrations.position((report.database.revision or "").split())
    steps = tuple(
        PlannedRevision(
            revision.id,
            revision.title,
            revision.id in position.applied,
            tuple(
                GateState(f"{runbook.name}/{phase.name}", phase.gate)
                for runbook, phase in report.phases()
                if revision.id in phase.opens
            ),
        )
        for revision in migrations
    )
    return MigrationPlan(report.database, steps, next_step(migrations, steps, report, calls))


def next_step(migrations: Migrations, steps: Sequence[PlannedRevision], report: Report, calls: Calls) -> str:
    """Write the next step in one sentence."""
    if not steps:
        return f"the project has no revision yet: {calls.alembic('revision -m ...')}"
    waiting = [step for step in steps if not step.applied]
    closed = report.addresses(Gate.CLOSED)
    fix = f"fix {', '.join(closed)}: {report.closed_command(calls)}"
    if not waiting:
        return fix if closed else "nothing: the database is at head"
    shut = {step.revision: step.shut for step in waiting if step.shut}
    gated = [step.revision for step in waiting if step.gates]
    applied = [step.revision for step in steps if step.applied]
    targets = ends(migrations, next_batch(migrations, applied, migrations.heads, gated, shut))
    if not targets:
        revision, (gate, *more) = next(iter(shut.items()))
        return f"{revision} waits for {', '.join((gate, *more))}: {calls.pipestate(f'gate {gate}')}"
    if len(migrations.heads) > 1:
        return calls.pipestate("upgrade")
    if targets[0] in gated and report.obstacles:
        return next(iter(report.obstacles.values()))
    if targets[0] in gated:
        return f"the gate is open: {calls.alembic('upgrade head')}"
    return fix if closed else calls.alembic(f"upgrade {targets[0]}")
