"""`plan` and `status`: where the database is, and how things stand."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.cli.verify import DEFAULT_TIMEOUT_S, Timeout

if TYPE_CHECKING:
    from pipestate.cli.watch import Draw
    from pipestate.runbook.model import Runbook
    from pipestate.standing.model import Standing

EVERY_S = 5.0


@project_options
def plan(to: Target, json_: AsJson = False) -> None:
    """Show where the database is, which revisions wait for which gate, and what to do next.

    Example: pipestate plan
    """
    from pipestate.chain.revisions import refuse_wrong_revisions
    from pipestate.render.plan import plan_as_data, print_plan
    from pipestate.runbook.find import every_runbook
    from pipestate.verify.plan import plan
    from pipestate.verify.run import verify
    from pipestate.verify.select import find_phases

    books = every_runbook(to.project.runbooks)
    refuse_wrong_revisions(to.chain, books, to.project.named)
    phases = find_phases([book for book in books if book.default])
    found = plan(to.chain, verify(to.url, phases, to.locate), to.calls)
    if json_:
        print_json(plan_as_data(found))
    else:
        print_plan(found, console())


@project_options
def status(
    to: Target,
    runbooks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUNBOOK",
            help="Names, or paths of .md files; else all that run by default.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and look again every 5 seconds.")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", metavar="SECONDS", min=0.5, help="Watch, and look so often.", show_default=False
        ),
    ] = None,
    json_: AsJson = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Show how things stand: which gates are open, since when, and when the others can open.

    With that: what is missing, who has signed and how long it holds, what probes saw, and the pages' views.

    Example: pipestate status

    Example: pipestate status orders --watch
    """
    from pipestate.cli import watch as again
    from pipestate.render.status import print_status
    from pipestate.render.status_data import status_as_data

    if watch or every is not None:
        again.refuse_json(json_)
        again.watch(lambda: drawn(to, runbooks or [], timeout), every or EVERY_S)
        return
    standing = look(to, runbooks or [], timeout)
    for warning in standing.warnings:
        say(f"warning: {warning}", err=True)
    if json_:
        print_json(status_as_data(standing))
    else:
        print_status(standing, console(), to.calls)


def look(to: Target, names: list[str], timeout: float) -> "Standing":
    """Collect how the pages stand that are named, or the default ones."""
    from pipestate import db
    from pipestate.standing.collect import collect
    from pipestate.verify.select import find_phases

    phases = find_phases(chosen(to, names))
    with db.reader(to.url) as connection:
        return collect(connection, to.url, phases, to.locate(connection), timeout_s=timeout)


def chosen(to: Target, names: list[str]) -> "list[Runbook]":
    """Load the pages that are named, or the default ones, if any; one whose `opens` is broken is refused."""
    from pipestate.chain.revisions import refuse_wrong_revisions
    from pipestate.runbook.find import default_runbooks, find_runbooks

    directory = to.project.runbooks
    books = find_runbooks(names, directory) if names else default_runbooks(directory)
    refuse_wrong_revisions(to.chain, books, to.project.named)
    return books


def drawn(to: Target, names: list[str], timeout: float) -> "Draw":
    """Look once, and return what draws that for a width."""
    from pipestate.render.status import status_picture

    standing = look(to, names, timeout)
    return lambda width: status_picture(standing, width, to.calls)
