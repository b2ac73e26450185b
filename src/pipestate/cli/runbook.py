"""`runbook lint` and `runbook show`: without a database."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import Config, project_ini
from pipestate.cli.output import console, say
from pipestate.errors import ConfigError
from pipestate.plural import many


class Dialect(StrEnum):
    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


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
    from pipestate.runbook.files import pages_of
    from pipestate.runbook.lint import lint as lint_file

    pages = pages_of(paths or _every_file(project_ini(config)))
    if not pages:
        raise ConfigError("there is no runbook to lint: give a path")
    findings = [finding for path in pages for finding in lint_file(path)]
    for finding in findings:
        say(str(finding))
    say(f"{many(len(pages), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


def _every_file(ini: Path) -> list[Path]:
    from pipestate.runbook.files import without_page
    from pipestate.runbook.find import runbook_directory, runbook_files

    return [*runbook_files(ini), *without_page(runbook_directory(ini))]


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A name or a path.", autocompletion=complete.runbook)],
    phase: Annotated[
        str | None,
        typer.Option("--phase", help="Its criteria and SQL, to paste.", show_default=False),
    ] = None,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", help="With --phase: for which engine.")
    ] = Dialect.POSTGRESQL,
    config: Config = None,
) -> None:
    """Show a runbook as it is read; with --phase, every criterion and the SQL that is run for it.

    Example: pipestate runbook show orders --phase readiness
    """
    from rich.markdown import Markdown

    from pipestate.runbook.find import find_runbooks

    (runbook,) = find_runbooks([name], project_ini(config))
    if phase is not None:
        from pipestate.render.phase import as_sql

        print(as_sql(runbook, phase, dialect))
        return
    screen = console()
    screen.print(Markdown(runbook.text.split("---\n", 2)[-1]) if screen.is_terminal else runbook.text)
