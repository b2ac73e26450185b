"""The commands `plan`, `status`, `drift` and `report`: they read one database and change nothing."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import (
    DEFAULT_TIMEOUT_S,
    AsJson,
    Runbooks,
    Target,
    Timeout,
    Verbose,
    project_options,
)
from pipestate.cli.output import console, print_answer, print_json, put, refuse_unwritable, say, warn
from pipestate.cli.verify import locating
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import Interrupted, remembered

if TYPE_CHECKING:
    from rich.console import RenderableType
    from sqlalchemy import Connection

    from pipestate.ledger.drift import Drift
    from pipestate.ledger.soft_drops import SoftDropped
    from pipestate.project.graph import Position
    from pipestate.rehearse.against_chain import ChainDrift
    from pipestate.runbook.model import Runbook
    from pipestate.status.model import Status
    from pipestate.status.plan import ChainPlan
    from pipestate.verify.report import Report


class Against(StrEnum):
    """What `drift` compares the database with."""

    RECORD = "record"
    CHAIN = "chain"


EVERY_S = 5.0
STDOUT = Path("-")


@project_options
def plan(to: Target, json_: AsJson = False, verbose: Verbose = False) -> None:
    """Show the next step, the database's revision, and the gates of pending revisions.

    Example: pipestate plan
    """
    from pipestate.cli.formats.json import as_data
    from pipestate.cli.formats.plan import print_plan

    found, report, dropped = planned(to)
    if json_:
        print_json(as_data(found))
    else:
        print_plan(found, report.database, console(), verbose=verbose, dropped=dropped)


def planned(to: Target) -> "tuple[ChainPlan, Report, list[SoftDropped]]":
    """Combine the chain, its gates and those of the default runbooks, and soft-dropped objects.

    Refuse a wrong `opens`.
    """
    from pipestate.ledger.soft_drops import readable_soft_drops
    from pipestate.project.phases import resolve_opens
    from pipestate.runbook.files import every_runbook
    from pipestate.status.plan import plan
    from pipestate.verify.run import verify
    from pipestate.verify.select import find_phases

    books = resolve_opens(to.chain, every_runbook(to.project.runbooks), to.project.named)
    phases = [(book, phase) for book, phase in find_phases(books) if book.default or phase.opens]
    said: list[str] = []
    dropped: list[SoftDropped] = []
    find = locating(to, said.append)

    def locate(connection: "Connection") -> "Position":
        position = find(connection)
        dropped.extend(readable_soft_drops(connection))
        return position

    report = verify(to.url, phases, locate)
    warn(said)
    return plan(to.chain, report, to.calls), report, dropped


@project_options
def status(
    to: Target,
    runbooks: Runbooks = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running, and refresh every 5 seconds.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="SECONDS", min=0.5, help="Refresh so often; implies --watch."),
    ] = None,
    json_: AsJson = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show which gates are open, since when, and when the others can open.

    It lists failed checks, sign-offs and their expiry, observations, and the views of the runbooks.

    Example: pipestate status

    Example: pipestate status orders --watch
    """
    from pipestate.cli.formats.json import status_as_data
    from pipestate.cli.formats.status import print_status

    if watch or every is not None:
        if json_:
            raise ConfigError("--watch draws on a terminal, --json prints for a program: give one of them")
        redraw(lambda: drawn(to, runbooks or [], timeout, verbose=verbose), every or EVERY_S)
        return
    standing = look(to, runbooks or [], timeout)
    if json_:
        print_json(status_as_data(standing))
    else:
        print_status(standing, console(), to.calls, verbose=verbose)
    warn(standing.warnings)


@project_options
def drift(
    to: Target,
    against: Annotated[
        Against,
        typer.Option(
            "--against",
            help="The last record, or what the chain builds on an empty embedded server.",
        ),
    ] = Against.RECORD,
    json_: AsJson = False,
) -> None:
    """Show what differs from the schema that the last guarded run recorded, or from what the chain builds.

    Exit code 0: nothing differs; 1: something does; 2: no record or revision; 3: not evaluated.

    Example: pipestate drift

    Example: pipestate drift --against chain
    """
    from pipestate.cli.formats.json import as_data
    from pipestate.cli.formats.status import drift_as_lines

    found = (drift_from_chain if against is Against.CHAIN else drift_from_record)(to)
    data = as_data(found)
    keys = ("schema_version", "revision", "recorded_at", "incomparable", "differences")
    print_answer({key: data.get(key) for key in keys}, drift_as_lines(found), json_=json_)
    raise typer.Exit(1 if found.differences or getattr(found, "incomparable", None) else 0)


def drift_from_record(to: Target) -> "Drift":
    """Compare the database with the schema of its last record."""
    from pipestate.database import connections as db
    from pipestate.ledger.drift import require_drift
    from pipestate.ledger.state import require_shown

    with db.reader(to.url) as connection:
        require_shown(connection, lambda: to.locate(connection))
        return require_drift(connection)


def drift_from_chain(to: Target) -> "ChainDrift":
    """Compare the database with what its chain builds."""
    from pipestate.rehearse.against_chain import compare_with_chain
    from pipestate.rehearse.clone import Job

    job = Job(to.url, None, to.project, to.chain, to.locate)
    return compare_with_chain(job, lambda said: say(f"pipestate: {said}", err=True))


@project_options
def report(
    to: Target,
    runbooks: Runbooks = None,
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
    from pipestate.database import connections as db
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


def look(to: Target, names: list[str], timeout: float) -> "Status":
    """Collect the status of the named runbooks, or of the default ones."""
    from pipestate.database import connections as db
    from pipestate.status.collect import collect
    from pipestate.verify.select import find_phases

    phases = find_phases(chosen(to, names))
    with db.reader(to.url) as connection:
        return collect(connection, to.url, phases, to.locate(connection), timeout_s=timeout)


def chosen(to: Target, names: list[str]) -> "list[Runbook]":
    """Load the named runbooks, else the default ones; refuse one with a wrong `opens`."""
    from pipestate.project.phases import resolve_opens
    from pipestate.runbook.files import default_runbooks, find_runbooks

    directory = to.project.runbooks
    books = find_runbooks(names, directory) if names else default_runbooks(directory)
    return resolve_opens(to.chain, books, to.project.named)


def drawn(to: Target, names: list[str], timeout: float, *, verbose: bool) -> "Draw":
    """Collect the status once, and return a function that draws it for a width."""
    from pipestate.cli.formats.status import status_picture

    standing = look(to, names, timeout)
    return lambda width: status_picture(standing, width, to.calls, verbose=verbose)


# Draws a picture for a number of columns.
Draw = Callable[[int], "RenderableType"]


def redraw(look: Callable[[], Draw], every_s: float) -> None:
    """Draw the picture that `look` returns for the terminal's width, and repeat.

    The first call must succeed. Later errors, such as a lost connection or a half-edited runbook, appear above the
    last picture, and the call is repeated. Ctrl-C ends it with exit code 0.
    """
    if not sys.stdout.isatty():
        raise ConfigError("--watch draws on a terminal, and this is none: leave it out, or take --json")
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from pipestate.core.text import plain

    console = Console(highlight=False)
    looked, problem = datetime.now(UTC), ""

    def screen() -> Group:
        picture = draw(console.width)
        said = f"every {every_s:g} s, Ctrl-C ends it"
        hidden = len(console.render_lines(picture)) + 1 - console.height
        if problem:
            said = f"{plain(problem)}; trying again {said}"
        elif hidden > 0:
            said += f"; {hidden} more lines: a higher window shows them"
        return Group(Text(f"{looked:%H:%M:%S} UTC, {said}", "bold red" if problem else "dim"), picture)

    with suppress(KeyboardInterrupt, Interrupted), remembered() as asked:
        draw = look()
        with Live(get_renderable=screen, console=console, screen=True):
            while not asked.wait(every_s):
                try:
                    draw, looked, problem = look(), datetime.now(UTC), ""
                except Interrupted:
                    raise
                except PipestateError as error:
                    looked, problem = datetime.now(UTC), str(error)
    say("stopped watching; nothing was changed", err=True)
