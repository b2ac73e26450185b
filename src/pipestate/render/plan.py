"""The plan on the terminal and as data: revisions with the gates before them, and the next step."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipestate.render.console import GATES
from pipestate.safe import plain
from pipestate.verify.plan import ChainPlan, PlannedRevision


def print_plan(plan: ChainPlan, console: Console) -> None:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "revision", "what it does"):
        table.add_column(column, overflow="fold")
    for step in plan.steps:
        mark = Text("✓", "green") if step.applied else Text("·", "dim")
        title = Text(plain(step.title), "" if step.applied else "dim")
        for gate in step.gates:
            title.append(f"\ngate {gate.name} {gate.state}", GATES[gate.state])
        table.add_row(mark, Text(plain(step.revision)), title)
    console.print(table)
    console.print(Text(f"\nNext: {plan.advice}", "bold"))


def plan_as_data(plan: ChainPlan) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "revision": plan.position.current,
        "head": plan.position.head,
        "steps": [_step(step) for step in plan.steps],
        "next": plan.advice,
    }


def _step(step: PlannedRevision) -> dict[str, Any]:
    gates = [{"phase": gate.name, "gate": str(gate.state)} for gate in step.gates]
    return {"revision": step.revision, "title": step.title, "applied": step.applied, "gates": gates}
