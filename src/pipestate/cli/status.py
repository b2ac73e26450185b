"""The commands `plan`, `status`, `drift` and `report`: they read one database and change nothing."""

from dataclasses import replace
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

if TYPE_CHECKING:
    from pipestate.ledger.drift import Drift
    from pipestate.runbook.model import Runbook


class Against(StrEnum):
    """What `drift` compares the database with."""

    RECORD = "record"
    MIGRATIONS = "migrations"


STDOUT = Path("-")


@project_options
def plan(to: Target, json_: AsJson = False, verbose: Verbose = False) -> None:
    """Show the next step, the database's revision, and the gates of pending revisions.

    Example: pipestate plan
    """
    from pipestate.cli.formats.plan import print_plan
    from pipestate.ledger.drift import edited_files
    from pipestate.ledger.soft_drops import readable_soft_drops
    from pipestate.project.phases import resolve_opens
    from pipestate.runbook.files import every_runbook
    from pipestate.status.obstacles import with_obstacles
    from pipestate.status.plan import plan
    from pipestate.verify.run import verify_on

    books = resolve_opens(to.migrations, every_runbook(to.project.runbooks), to.project.named)
    phases = [(book, phase) for book in books for phase in book.phases if book.default or phase.opens]
    with to.connect() as (connection, position):
        edited, dropped = edited_files(connection, position), readable_soft_drops(connection)
        report = verify_on(connection, to.url, phases, position)
        report = with_obstacles(connection, to.migrations, position, report)
    found = plan(to.migrations, report, to.calls)
    warn((*edited, *to.warnings))
    print_json(found) if json_ else print_plan(found, dropped, console(), verbose=verbose)


@project_options
def status(
    to: Target,
    runbooks: Runbooks = None,
    json_: AsJson = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    verbose: Verbose = False,
) -> None:
    """Show which gates are open, since when, and when the others can open.

    It lists failed checks, sign-offs and their expiry, observations, and the views of the runbooks.

    Example: pipestate status

    Example: pipestate status orders
    """
    from pipestate.cli.formats.status import print_status
    from pipestate.status.collect import collect
    from pipestate.verify.checks import find_phases

    phases = find_phases(chosen(to, runbooks or []))
    with to.connect() as (connection, position):
        found = collect(connection, to.url, phases, position, timeout_s=timeout)
    found = replace(found, warnings=(*found.warnings, *to.warnings))
    if json_:
        print_json(found)
    else:
        print_status(found, console(), to.calls, verbose=verbose)
    warn(found.warnings)


@project_options
def drift(
    to: Target,
    against: Annotated[
        Against,
        typer.Option(
            "--against",
            help="The last record, or what the migrations build on an empty embedded server.",
        ),
    ] = Against.RECORD,
    json_: AsJson = False,
) -> None:
    """Show what differs from the schema that the last guarded run recorded, or from what the migrations build.

    Exit code 0: nothing differs; 1: something does; 2: no record or revision; 3: not evaluated.

    Example: pipestate drift

    Example: pipestate drift --against migrations
    """
    from pipestate.cli.formats.status import drift_as_lines

    warn(to.warnings)
    found = (drift_from_migrations if against is Against.MIGRATIONS else drift_from_record)(to)
    print_answer(found, drift_as_lines(found), json_=json_)
    raise typer.Exit(1 if found.differences or found.incomparable else 0)


def drift_from_record(to: Target) -> "Drift":
    """Compare the database with the schema of its last record."""
    from pipestate.database import connections as db
    from pipestate.ledger.drift import require_drift
    from pipestate.ledger.state import require_shown

    with db.reader(to.url) as connection:
        require_shown(connection, lambda: to.locate(connection))
        return require_drift(connection)


def drift_from_migrations(to: Target) -> "Drift":
    """Compare the database with what its migrations build."""
    from pipestate.rehearse.against_migrations import compare_with_migrations
    from pipestate.rehearse.clone import Job

    job = Job(to.url, None, to.project, to.migrations, to.locate)
    return compare_with_migrations(job, lambda said: say(f"pipestate: {said}", err=True))


@project_options
def report(
    to: Target,
    runbooks: Runbooks = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File of the report; - is stdout.")
    ],
    days: Annotated[int, typer.Option("--days", min=1, max=3660, help="Period that the charts show.")] = 30,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Write a page for a browser: gates, sign-offs, numbers over time, the runbooks' text with its verdicts.

    It needs nothing else and works offline. Exit code 0: it is written, whatever the gates say.

    Example: pipestate report --output report.html
    """
    from pipestate.report.gather import gather
    from pipestate.report.page import render_page

    file = None if output == STDOUT else output
    refuse_unwritable(file)
    books = chosen(to, runbooks or [])
    with to.connect() as (connection, position):
        gathered = gather(connection, to.url, books, position, days=days, timeout_s=timeout)
    page = render_page(gathered, to.calls)
    put(page, file, at_once=True)
    if gathered.status.forged:
        say(f"warning: {gathered.status.no_ledger}", err=True)
    if file is not None:
        say(f"wrote {file} ({len(page.encode()) / 1000:,.0f} kB)", err=True)


def chosen(to: Target, names: list[str]) -> "list[Runbook]":
    """Load the named runbooks, else the default ones; refuse one with a wrong `opens`."""
    from pipestate.project.phases import resolve_opens
    from pipestate.runbook.files import default_runbooks, find_runbooks

    directory = to.project.runbooks
    books = find_runbooks(names, directory) if names else default_runbooks(directory)
    return resolve_opens(to.migrations, books, to.project.named)
