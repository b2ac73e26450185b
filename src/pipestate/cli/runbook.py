"""The commands `runbook lint` and `runbook show`: they need no database."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.core.errors import PipestateError
from pipestate.core.text import many
from pipestate.project.find import Named, Project, find_project

if TYPE_CHECKING:
    from pipestate.runbook.model import Finding


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
    """Check the runbooks: what is wrong, in which line, and how to fix it.

    Exit code 0: nothing was found; 2: something was.

    Example: pipestate runbook lint runbooks/orders.md
    """
    from pipestate.project.phases import lint, require_runbooks
    from pipestate.runbook.files import all_runbook_files

    project = project_if_any(named) if paths else find_project(named)
    files = [Path(path) for path in paths or []] or (_every_file(project) if project else [])
    if not files and project is not None:
        require_runbooks(project)
    pages = all_runbook_files(files)
    findings = lint(pages, project)
    show_findings(pages, findings, json_=json_)
    say(f"{many(len(pages), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


def show_findings(pages: Sequence[Path], findings: "Sequence[Finding]", *, json_: bool) -> None:
    """Print the findings; `lint.schema.json` describes the JSON."""
    if json_:
        print_json(
            {
                "schema_version": 1,
                "ok": not findings,
                "runbooks": [str(page) for page in pages],
                "findings": [
                    {"path": each.path, "line": each.line, "message": each.message} for each in findings
                ],
            }
        )
        return
    for finding in findings:
        say(str(finding))


def _every_file(project: Project) -> list[Path]:
    from pipestate.runbook.files import runbook_files, without_page

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
    from pipestate.cli.formats.runbook import as_sql, print_runbook
    from pipestate.runbook.files import find_runbooks

    (runbook,) = find_runbooks([name], project.runbooks)
    if phase is None:
        print_runbook(runbook, console())
    else:
        print(as_sql(runbook, phase, dialect))


def project_if_any(named: Named) -> Project | None:
    """Find the project of the files; return None if none is named and none is found."""
    try:
        return find_project(named)
    except PipestateError:
        if named != Named():
            raise
        return None
