"""`pipestate report`: how things stand, as a page for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import Target, project_options
from pipestate.cli.output import put, refuse_unwritable, say
from pipestate.cli.status import chosen
from pipestate.cli.verify import DEFAULT_TIMEOUT_S, Timeout

STDOUT = Path("-")


@project_options
def report(
    to: Target,
    runbooks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUNBOOK",
            help="A name, or the path of a .md file; else the default ones.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write the page there; - is stdout.")
    ],
    days: Annotated[int, typer.Option("--days", min=1, max=3660, help="How far back the charts go.")] = 30,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Write a page for a browser: gates, sign-offs, numbers over time, the runbooks' text with its verdicts.

    It needs nothing else and works offline. Exit code 0: it is written, whatever the gates say.

    Example: pipestate report --output report.html
    """
    from pipestate import db
    from pipestate.report.gather import gather
    from pipestate.report.page import render_page

    file = None if output == STDOUT else output
    refuse_unwritable(file)
    books = chosen(to, runbooks or [])
    with db.reader(to.url) as connection:
        gathered = gather(connection, to.url, books, to.locate(connection), days=days, timeout_s=timeout)
    page = render_page(gathered, to.calls)
    put(page, file, at_once=True)
    if gathered.standing.forged:
        say(f"warning: {gathered.standing.no_ledger}", err=True)
    if file is not None:
        say(f"wrote {file} ({len(page.encode()) / 1000:,.0f} kB)", err=True)
