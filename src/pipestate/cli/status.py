"""`plan` and `status`: where the database is, and how the pipeline does."""

from typing import Any

import typer

from pipestate import db, shelf
from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json
from pipestate.plan import Step, next_step, plan_of
from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_views, verify
from pipestate.verify.select import find_phases


def plan(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Where the database is: revisions and phases side by side, and the next step.

    Example: pipestate plan
    """
    from rich.table import Table
    from rich.text import Text

    from pipestate.migrations.revisions import chain
    from pipestate.render.console import GATES

    to = target(database_url, config)
    revisions = to.revisions()
    phases = find_phases([book for book in shelf.every(to.ini) if book.default], None)
    report = verify(to.url, phases, revisions)
    steps = plan_of(chain(to.ini), revisions, report)
    advice = next_step(steps, report)
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
    for column in ("", "revision", "what it does", "gate"):
        table.add_column(column, overflow="fold")
    for step in steps:
        mark = Text("✓", "green") if step.applied else Text("·", "dim")
        gates = Text(", ").join(Text(f"{gate.name} {gate.state}", GATES[gate.state]) for gate in step.gates)
        table.add_row(mark, step.revision, Text(step.title, "" if step.applied else "dim"), gates)
    console().print(table)
    console().print(Text(f"\nNext: {advice}", "bold"))


def status(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """How the pipeline does: the views of the runbooks.

    Example: pipestate status
    """
    from rich.text import Text

    from pipestate.render.console import evidence_table

    to = target(database_url, config)
    phases = find_phases([book for book in shelf.every(to.ini) if book.default], None)
    revisions = to.revisions()
    with db.reader(to.url) as connection:
        views = run_views(connection, phases, revisions, DEFAULT_TIMEOUT_S)
    if json_:
        print_json({view.id: {"error": view.error, "rows": list(view.rows)} for view in views})
        return
    screen = console()
    if not views:
        typer.echo(
            f"nothing to show at revision {revisions.current or 'base'}: run alembic upgrade 0005 first"
        )
    for view in views:
        screen.print(Text(f"\n{view.id}", "bold"))
        if view.error:
            screen.print(Text(view.error, "red"))
        else:
            screen.print(evidence_table(list(view.rows)) if view.rows else Text("(none)", "dim"))


def _data(step: Step) -> dict[str, Any]:
    gates = [{"phase": gate.name, "gate": str(gate.state)} for gate in step.gates]
    return {"revision": step.revision, "title": step.title, "applied": step.applied, "gates": gates}
