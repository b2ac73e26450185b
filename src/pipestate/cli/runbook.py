"""`runbook lint` and `runbook show`: without a database."""

from pathlib import Path
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import Config, project_ini
from pipestate.cli.output import console, say
from pipestate.errors import ConfigError
from pipestate.plural import many

app = typer.Typer(help="Look at runbooks without a database.", no_args_is_help=True)


@app.command()
def lint(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files; else all of them.", show_default=False),
    ] = None,
    config: Config = None,
) -> None:
    """Check runbooks: file:line, what is wrong, how to fix it. Exit code 2 when something is.

    Example: pipestate runbook lint runbooks/orders.md
    """
    from pipestate.runbook.find import runbook_files
    from pipestate.runbook.lint import lint as lint_file

    files = paths or runbook_files(project_ini(config))
    if not files:
        raise ConfigError("there is no runbook to lint: give a path")
    findings = [finding for path in files for finding in lint_file(path)]
    for finding in findings:
        say(str(finding))
    say(f"{many(len(files), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A name or a path.", autocompletion=complete.runbook)],
    config: Config = None,
) -> None:
    """Show a runbook as it is read.

    Example: pipestate runbook show orders
    """
    from rich.markdown import Markdown

    from pipestate.runbook.find import find_runbooks

    (runbook,) = find_runbooks([name], project_ini(config))
    screen = console()
    screen.print(Markdown(runbook.text.split("---\n", 2)[-1]) if screen.is_terminal else runbook.text)
