"""`pipestate report`: how things stand, as a page for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import Target, project_options
from pipestate.cli.output import say

STDOUT = Path("-")


@project_options
def report(
    to: Target,
    runbooks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUNBOOK]...",
            help="A name, or the path of a .md file.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write the page there; - is stdout.")
    ],
    days: Annotated[int, typer.Option("--days", min=1, max=3660, help="How far back the charts go.")] = 30,
) -> None:
    """Write a page for a browser: gates, sign-offs, numbers over time, the runbooks' text with its verdicts.

    It needs nothing else and works offline. Exit code 0: it is written, whatever the gates say.

    Example: pipestate report --output report.html
    """
    from pipestate import db
    from pipestate.report.gather import gather
    from pipestate.report.page import render_page
    from pipestate.report.write import write_whole
    from pipestate.runbook.find import every_runbook, find_runbooks

    directory = to.project.runbooks
    books = (
        find_runbooks(runbooks, directory)
        if runbooks
        else [book for book in every_runbook(directory) if book.default]
    )
    with db.reader(to.url) as connection:
        gathered = gather(connection, to.url, books, to.locate(connection), days=days)
    page = render_page(gathered, to.calls)
    if output == STDOUT:
        print(page)
        return
    write_whole(output, page)
    say(f"wrote {output} ({len(page.encode()) / 1000:,.0f} kB)", err=True)
