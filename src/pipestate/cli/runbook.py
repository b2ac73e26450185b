"""`runbook lint` and `runbook show`: without a database."""

from pathlib import Path
from typing import Annotated

import typer

from pipestate.chain.project import Named, Project, find_project
from pipestate.cli import complete
from pipestate.cli.options import project_options
from pipestate.cli.output import console, say
from pipestate.errors import ConfigError, PipestateError
from pipestate.plural import many

app = typer.Typer(help="Look at runbooks without a database.", no_args_is_help=True)


@app.command()
@project_options
def lint(
    named: Named,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files; else all of the project.", show_default=False),
    ] = None,
) -> None:
    """Check runbooks: file:line, what is wrong, how to fix it. Exit code 2 when something is.

    Example: pipestate runbook lint runbooks/orders.md
    """
    from pipestate.chain.lint import lint
    from pipestate.runbook.find import runbook_files

    project = project_if_any(named) if paths else find_project(named)
    files = [Path(path) for path in paths or []] or (runbook_files(project.runbooks) if project else [])
    if not files:
        raise ConfigError("there is no runbook to lint: give a path")
    findings = lint(files, project)
    for finding in findings:
        say(str(finding))
    say(f"{many(len(files), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


@app.command()
@project_options
def show(
    project: Project,
    name: Annotated[
        str, typer.Argument(help="A name, or the path of a .md file.", autocompletion=complete.runbook)
    ],
) -> None:
    """Show a runbook as it is read.

    Example: pipestate runbook show orders
    """
    from pipestate.render.runbook import print_runbook
    from pipestate.runbook.find import find_runbooks

    (runbook,) = find_runbooks([name], project.runbooks)
    print_runbook(runbook, console())


def project_if_any(named: Named) -> Project | None:
    """Find the project to which the files may belong: where none is named, none is needed."""
    try:
        return find_project(named)
    except PipestateError:
        if named != Named():
            raise
        return None
