"""`plan` and `status`: where the database is, and what the runbooks' views show."""

from typing import Any

from pipestate import db
from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json, say
from pipestate.runbook.find import every_runbook
from pipestate.verify.plan import Step, next_step, plan_of
from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_views, verify
from pipestate.verify.select import find_phases


def plan(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Where the database is: revisions and phases side by side, and the next step.

    Example: pipestate plan
    """
    from rich.table import Table
    from rich.text import Text

    from pipestate.chain.revisions import chain
    from pipestate.render.console import GATES

    to = target(database_url, config)
    revisions = to.revisions()
    phases = find_phases([book for book in every_runbook(to.ini) if book.default], None)
    report = verify(to.url, phases, revisions)
    steps = plan_of(chain(to.ini), revisions, report)
    advice = next_step(steps, report, to.alembic)
    if json_:
        print_json(
            {
                "revision": revisions.current,
                "head": revisions.head,
                "steps": [_data(s) for s in steps],
                "next": advice,
            }
        )
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "revision", "what it does"):
        table.add_column(column, overflow="fold")
    for step in steps:
        mark = Text("✓", "green") if step.applied else Text("·", "dim")
        title = Text(step.title, "" if step.applied else "dim")
        for gate in step.gates:
            title.append(f"\ngate {gate.name} {gate.state}", GATES[gate.state])
        table.add_row(mark, step.revision, title)
    console().print(table)
    console().print(Text(f"\nNext: {advice}", "bold"))


def status(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Show the views of the runbooks.

    Example: pipestate status
    """
    from pipestate.render.views import print_views

    to = target(database_url, config)
    phases = find_phases([book for book in every_runbook(to.ini) if book.default], None)
    revisions = to.revisions()
    with db.reader(to.url) as connection:
        views = run_views(connection, phases, revisions, DEFAULT_TIMEOUT_S)
    if json_:
        print_json({view.id: {"error": view.error, "rows": list(view.rows)} for view in views})
        return
    if not views:
        at = revisions.current or "base"
        say(f"nothing to show: no view applies at revision {at}. The next step: pipestate plan")
    print_views(views, console())


def _data(step: Step) -> dict[str, Any]:
    gates = [{"phase": gate.name, "gate": str(gate.state)} for gate in step.gates]
    return {"revision": step.revision, "title": step.title, "applied": step.applied, "gates": gates}
