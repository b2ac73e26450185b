"""`runbook lint` and `runbook show`: without a database."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.chain.project import Named, Project, find_project
from pipestate.cli import complete
from pipestate.cli.options import AsJson, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.errors import PipestateError
from pipestate.plural import many

if TYPE_CHECKING:
    from pipestate.runbook.finding import Finding


class Dialect(StrEnum):
    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


app = typer.Typer(help="Check and show runbooks, without a database.", no_args_is_help=True)


@app.command()
@project_options
def lint(
    named: Named,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files; else all of the project.", show_default=False),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Check the pages themselves: what is wrong, in which line, and how to fix it.

    Exit code 0: nothing was found; 2: something was.

    Example: pipestate runbook lint runbooks/orders.md
    """
    from pipestate.chain.lint import lint
    from pipestate.chain.pages import require_pages
    from pipestate.runbook.files import pages_of

    project = project_if_any(named) if paths else find_project(named)
    files = [Path(path) for path in paths or []] or (_every_file(project) if project else [])
    if not files and project is not None:
        require_pages(project)
    pages = pages_of(files)
    findings = lint(pages, project)
    show_findings(pages, findings, json_=json_)
    say(f"{many(len(pages), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


def show_findings(pages: Sequence[Path], findings: "Sequence[Finding]", *, json_: bool) -> None:
    from pipestate.render.lint import findings_as_data

    if json_:
        print_json(findings_as_data(pages, findings))
        return
    for finding in findings:
        say(str(finding))


def _every_file(project: Project) -> list[Path]:
    from pipestate.runbook.files import without_page
    from pipestate.runbook.find import runbook_files

    return [*runbook_files(project.runbooks), *without_page(project.runbooks)]


@app.command()
@project_options
def show(
    project: Project,
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUNBOOK", help="A name, or the path of a .md file.", autocompletion=complete.runbook
        ),
    ],
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            help="Only this one, as SQL to paste: every criterion and its query.",
            show_default=False,
        ),
    ] = None,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", metavar="ENGINE", help="With --phase: for which engine.")
    ] = Dialect.POSTGRESQL,
) -> None:
    """Show a runbook as people read it; with --phase, the SQL that is run for it.

    Example: pipestate runbook show orders --phase readiness
    """
    from pipestate.render.phase import as_sql
    from pipestate.render.runbook import print_runbook
    from pipestate.runbook.find import find_runbooks

    (runbook,) = find_runbooks([name], project.runbooks)
    if phase is None:
        print_runbook(runbook, console())
    else:
        print(as_sql(runbook, phase, dialect))


def project_if_any(named: Named) -> Project | None:
    """Find the project to which the files may belong: where none is named, none is needed."""
    try:
        return find_project(named)
    except PipestateError:
        if named != Named():
            raise
        return None
