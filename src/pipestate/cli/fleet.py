"""`pipestate fleet`: verify, gate and plan on many databases of one chain."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.chain.project import Project
from pipestate.cli import complete
from pipestate.cli.options import DATABASE_PANEL, project_options
from pipestate.cli.output import console, put_json_line, say
from pipestate.cli.verify import DEFAULT_TIMEOUT_S, Phases, Timeout

if TYPE_CHECKING:
    from pipestate.fleet.ask import FleetQuestion
    from pipestate.fleet.run import Fleet

app = typer.Typer(help="Ask many databases the same, and see what differs.", no_args_is_help=True)

DEFAULT_JOBS = 8
Databases = Annotated[
    str,
    typer.Option(
        "--databases",
        metavar="FILE|-",
        help="A URL a line, or a URL and a query that returns databases: or schemas: (docs/fleet.md); - is stdin.",
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Databases that are asked at once.")]
Lines = Annotated[
    bool, typer.Option("--json", help="Print a line of JSON for each database, then one for all.")
]
VersionTable = Annotated[
    str | None,
    typer.Option(
        "--version-table",
        metavar="TABLE",
        help="TABLE or SCHEMA.TABLE, where it is not found.",
        show_default=False,
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
            metavar="RUNBOOK",
            help="A name, or the path of a .md file.",
            show_default=False,
            autocompletion=complete.runbook,
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
    from pipestate.chain.pages import find_pages
    from pipestate.fleet.question import make_question

    books = find_pages(project, runbooks or [], phases or [])
    question = make_question(
        project,
        books,
        phases or [],
        version_table=version_table,
        timeout_s=timeout,
        record=record,
        compare=True,
    )
    ask(question, databases, jobs, json_=json_)


@app.command()
@project_options
def gate(
    project: Project,
    phase: Annotated[str, typer.Argument(help="PHASE, or RUNBOOK/PHASE.", autocompletion=complete.phase)],
    databases: Databases,
    json_: Lines = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = DEFAULT_JOBS,
    version_table: VersionTable = None,
) -> None:
    """Is this gate open in each database? Where not, what is missing.

    Example: pipestate fleet gate readiness --databases tenants.txt
    """
    from pipestate.chain.pages import pages_at
    from pipestate.fleet.question import make_question

    books = pages_at(project, phase)
    question = make_question(project, books, [phase], version_table=version_table, timeout_s=timeout)
    ask(question, databases, jobs, json_=json_)


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
    """Where is each database, how many revisions are pending, and what is its next step?

    Example: pipestate fleet plan --databases tenants.txt
    """
    from pipestate.fleet.question import make_question
    from pipestate.runbook.find import default_runbooks

    books = default_runbooks(project.runbooks)
    question = make_question(
        project, books, version_table=version_table, timeout_s=timeout, compare=True, planned=True
    )
    ask(question, databases, jobs, json_=json_)


def ask(question: "FleetQuestion", databases: str, jobs: int, *, json_: bool) -> None:
    """Read the list, ask every database of it, show what differs, and exit as the worst of them."""
    from pipestate.cli.progress import progress
    from pipestate.fleet.listing import read_list
    from pipestate.fleet.run import ask_fleet
    from pipestate.fleet.tenants import find_tenants
    from pipestate.render.fleet_lines import answer_as_data

    tenants = find_tenants(read_list(databases), question.timeout_s, jobs)
    with progress("asking", "databases") as tell:
        put = (lambda answer: put_json_line(answer_as_data(answer))) if json_ else (lambda answer: None)
        fleet = ask_fleet(question, tenants, jobs, put, tell)
    show(fleet, json_=json_)
    fleet.refuse_interrupted(recorded=question.record)
    raise typer.Exit(fleet.exit_code)


def show(fleet: "Fleet", *, json_: bool) -> None:
    """Show what differs; what should be known besides, each thing once, goes to stderr."""
    from pipestate.render.fleet_lines import asides, fleet_as_data

    if json_:
        put_json_line(fleet_as_data(fleet))
    else:
        from pipestate.render.fleet import print_fleet

        print_fleet(fleet, console())
    for aside in asides(fleet):
        say(aside, err=True)
