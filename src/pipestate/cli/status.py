"""`plan` and `status`: where the database is, and what the runbooks' views show."""

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import console, print_json, say


@project_options
def plan(to: Target, json_: AsJson = False) -> None:
    """Show where the database is: revisions and gates side by side, and the next step.

    Example: pipestate plan
    """
    from pipestate.chain.opens import refuse_broken_opens
    from pipestate.render.plan import plan_as_data, print_plan
    from pipestate.runbook.find import every_runbook
    from pipestate.verify.plan import plan
    from pipestate.verify.run import verify
    from pipestate.verify.select import find_phases

    books = every_runbook(to.project.runbooks)
    refuse_broken_opens(to.chain, books, to.project.named)
    phases = find_phases([book for book in books if book.default], None)
    found = plan(to.chain, verify(to.url, phases, to.locate), to.calls)
    if json_:
        print_json(plan_as_data(found))
    else:
        print_plan(found, console())


@project_options
def status(to: Target, json_: AsJson = False) -> None:
    """Show the views of the runbooks.

    Example: pipestate status
    """
    from pipestate import db
    from pipestate.render.views import print_views, views_as_data
    from pipestate.runbook.find import every_runbook
    from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_views
    from pipestate.verify.select import find_phases

    phases = find_phases([book for book in every_runbook(to.project.runbooks) if book.default], None)
    with db.reader(to.url) as connection:
        position = to.locate(connection)
        views = run_views(connection, phases, position, DEFAULT_TIMEOUT_S)
    if json_:
        print_json(views_as_data(views))
    elif views:
        print_views(views, console())
    else:
        at = position.current or "base"
        say(f"nothing to show: no view applies at revision {at}. The next step: {to.calls.pipestate('plan')}")
