"""`plan` and `status`: where the database is, and what the runbooks' views show."""

from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json, say


def plan(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Where the database is: revisions and phases side by side, and the next step.

    Example: pipestate plan
    """
    from pipestate.chain.revisions import chain
    from pipestate.render.plan import plan_as_data, print_plan
    from pipestate.runbook.find import every_runbook
    from pipestate.verify.plan import next_step, plan_of
    from pipestate.verify.run import verify
    from pipestate.verify.select import find_phases

    to = target(database_url, config)
    position = to.revisions()
    phases = find_phases([book for book in every_runbook(to.ini) if book.default], None)
    report = verify(to.url, phases, position)
    steps = plan_of(chain(to.ini), position, report)
    advice = next_step(steps, report, to.alembic)
    if json_:
        print_json(plan_as_data(position, steps, advice))
    else:
        print_plan(steps, advice, console())


def status(json_: AsJson = False, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Show the views of the runbooks.

    Example: pipestate status
    """
    from pipestate import db
    from pipestate.render.views import print_views, views_as_data
    from pipestate.runbook.find import every_runbook
    from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_views
    from pipestate.verify.select import find_phases

    to = target(database_url, config)
    phases = find_phases([book for book in every_runbook(to.ini) if book.default], None)
    position = to.revisions()
    with db.reader(to.url) as connection:
        views = run_views(connection, phases, position, DEFAULT_TIMEOUT_S)
    if json_:
        print_json(views_as_data(views))
    elif views:
        print_views(views, console())
    else:
        at = position.current or "base"
        say(f"nothing to show: no view applies at revision {at}. The next step: pipestate plan")
