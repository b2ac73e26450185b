"""`pipestate fleet`: verify, gate, plan and upgrade on many databases of one project."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import (
    DATABASE_PANEL,
    DEFAULT_TIMEOUT_S,
    Phases,
    Timeout,
    complete_phase,
    complete_runbook,
    project_options,
)
from pipestate.cli.output import console, put_json_line, say
from pipestate.core.text import many
from pipestate.project.find import Project

if TYPE_CHECKING:
    from pipestate.core.progress import Progress
    from pipestate.fleet.evaluate import FleetRequest
    from pipestate.fleet.list import Tenants
    from pipestate.fleet.run import Fleet, OnAnswer

app = typer.Typer(help="Verify, plan and upgrade many databases, and see what differs.", no_args_is_help=True)

DEFAULT_JOBS = 8
MOST_WARNINGS = 5
Databases = Annotated[
    str,
    typer.Option(
        "--databases",
        metavar="FILE|-",
        help="A URL a line; behind it databases: or schemas: and a query that returns their names. - is stdin.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Databases that are evaluated at once.")]
Lines = Annotated[
    bool, typer.Option("--json", help="Print a line of JSON for each database, then one for all.")
]
VersionTable = Annotated[
    str | None,
    typer.Option(
        "--version-table",
        metavar="TABLE",
        help="Alembic's version table, if pipestate does not find it: TABLE or SCHEMA.TABLE.",
        rich_help_panel=DATABASE_PANEL,
    ),
]


@app.command()
@project_options
def verify(
    project: Project,
    databases: Databases,
    runbooks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUNBOOK", help="A name, or the path of a .md file.", autocompletion=complete_runbook
        ),
    ] = None,
    phases: Phases = None,
    record: Annotated[bool, typer.Option("--record", help="Write the runs into the ledgers.")] = False,
    json_: Lines = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = DEFAULT_JOBS,
    version_table: VersionTable = None,
) -> None:
    """Run the runbooks' checks on each database; compare revisions, gates and schemas.

    The exit code is the highest that `verify` has for one of them.

    Example: pipestate fleet verify --databases tenants.txt --jobs 16
    """
    from pipestate.fleet.evaluate import make_request
    from pipestate.project.phases import locate_runbooks

    books = locate_runbooks(project, runbooks or [], phases or [])
    question = make_request(
        project,
        books,
        phases or [],
        version_table=version_table,
        timeout_s=timeout,
        record=record,
        compare=True,
    )
    evaluate(question, databases, jobs, json_=json_)


@app.command()
@project_options
def gate(
    project: Project,
    phase: Annotated[str, typer.Argument(help="PHASE, or RUNBOOK/PHASE.", autocompletion=complete_phase)],
    databases: Databases,
    json_: Lines = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = DEFAULT_JOBS,
    version_table: VersionTable = None,
) -> None:
    """Say in which databases a gate is open, and which checks close it in the others.

    Example: pipestate fleet gate readiness --databases tenants.txt
    """
    from pipestate.fleet.evaluate import make_request
    from pipestate.project.phases import load_runbooks

    books = load_runbooks(project, phase)
    question = make_request(
        project, books, [phase], version_table=version_table, timeout_s=timeout, of_gate=True
    )
    evaluate(question, databases, jobs, json_=json_)


@app.command()
@project_options
def plan(
    project: Project,
    databases: Databases,
    json_: Lines = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = DEFAULT_JOBS,
    version_table: VersionTable = None,
) -> None:
    """Show the revision, the pending revisions and the next step of each database.

    Example: pipestate fleet plan --databases tenants.txt
    """
    from pipestate.fleet.evaluate import make_request
    from pipestate.runbook.files import default_runbooks

    books = default_runbooks(project.runbooks)
    question = make_request(
        project, books, version_table=version_table, timeout_s=timeout, compare=True, planned=True
    )
    evaluate(question, databases, jobs, json_=json_)


@app.command()
@project_options
def upgrade(
    project: Project,
    databases: Databases,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Target: a revision, a branch, head, or heads.")
    ] = "heads",
    waves: Annotated[
        str,
        typer.Option(
            "--waves", metavar="1,10%,100%", help="Databases done after each wave, in the list's order."
        ),
    ] = "1,10%,100%",
    phases: Annotated[
        list[str] | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            help="A phase whose gate must be open in each database afterwards. May be repeated.",
            autocompletion=complete_phase,
        ),
    ] = None,
    max_failures: Annotated[
        int,
        typer.Option(
            "--max-failures", min=0, metavar="N", help="Stop when more databases than this have failed."
        ),
    ] = 0,
    hold: Annotated[
        bool, typer.Option("--hold", help="Exit with 0 if only revisions with a gate stay pending.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the waves and what is pending; change nothing.")
    ] = False,
    x: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            metavar="NAME=VALUE",
            help="For env.py, as alembic -x; {schema}, {database} and {name} are the tenant's. May be repeated.",
        ),
    ] = None,
    json_: Lines = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = DEFAULT_JOBS,
    version_table: VersionTable = None,
) -> None:
    """Upgrade many databases in waves; each wave is verified before the next.

    A closed gate leaves its revision pending in that database alone. After a kill, the same command continues.

    Example: pipestate fleet upgrade --databases tenants.txt --waves 1,10%,100%
    """
    from pipestate.fleet.upgrade import parse_waves, plan_fleet_upgrade, upgrade_fleet
    from pipestate.fleet.worker import Workers

    how = plan_fleet_upgrade(
        project, target, phases or (), parse_waves(waves), timeout_s=timeout, version_table=version_table
    )
    how = replace(how, max_failures=max_failures, hold=hold, dry_run=dry_run)
    workers = Workers(project, target, version_table, x or ())
    run_on_fleet(
        *(databases, jobs, timeout, "reading" if dry_run else "upgrading"),
        lambda tenants, put, tell: upgrade_fleet(how, tenants, workers, jobs, put, tell),
        recorded=True,
        json_=json_,
    )


def run_on_fleet(
    databases: str,
    jobs: int,
    timeout_s: float,
    what: str,
    run: "Callable[[Tenants, OnAnswer, Progress], Fleet]",
    *,
    recorded: bool,
    json_: bool,
) -> None:
    """Read the list, run the command on every database, show the result, and exit with the worst code."""
    from pipestate.cli.formats.json import answer_as_data
    from pipestate.cli.output import progress
    from pipestate.fleet.list import find_tenants, read_list

    tenants = find_tenants(read_list(databases), timeout_s, jobs)
    with progress(what, "databases") as tell:
        put = (lambda answer: put_json_line(answer_as_data(answer))) if json_ else (lambda answer: None)
        fleet = run(tenants, put, tell)
    show(fleet, json_=json_)
    fleet.refuse_interrupted(recorded=recorded)
    raise typer.Exit(fleet.exit_code)


def evaluate(question: "FleetRequest", databases: str, jobs: int, *, json_: bool) -> None:
    """Evaluate every database, and show the differences."""
    from pipestate.fleet.run import evaluate_fleet

    run_on_fleet(
        *(databases, jobs, question.timeout_s, "evaluating"),
        lambda tenants, put, tell: evaluate_fleet(question, tenants, jobs, put, tell),
        recorded=question.record,
        json_=json_,
    )


def show(fleet: "Fleet", *, json_: bool) -> None:
    """Show the differences; print each repeated database and warning once, on stderr."""
    from pipestate.cli.formats.json import fleet_as_data

    if json_:
        put_json_line(fleet_as_data(fleet))
    else:
        from pipestate.cli.formats.fleet import print_fleet

        print_fleet(fleet, console())
    for aside in asides(fleet):
        say(aside, err=True)


def asides(fleet: "Fleet") -> Iterator[str]:
    """List repeated databases, and each warning once."""
    for tenant in fleet.repeated:
        yield f"note: {tenant.source} names {tenant.address} again: it was evaluated once"
    for warning, number in fleet.warnings[:MOST_WARNINGS]:
        yield f"warning: {warning}" + (f" (in {many(number, 'database')})" if number > 1 else "")
    if len(fleet.warnings) > MOST_WARNINGS:
        yield f"and {many(len(fleet.warnings) - MOST_WARNINGS, 'more warning')}: --json has all of them"
