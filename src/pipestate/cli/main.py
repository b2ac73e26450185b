"""The `pipestate` command: its verbs, and the one place where errors become exit codes."""

import sys
from typing import Annotated

import typer

from pipestate import __version__
from pipestate.cli import backfill, ledger, purge, runbook, status, verify
from pipestate.cli.demo import demo
from pipestate.errors import PipestateError

app = typer.Typer(
    help="Runbooks that run, and destructive migrations that wait for their gate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(verify.verify)
app.command()(verify.gate)
app.command()(status.plan)
app.command()(status.status)
app.command()(backfill.backfill)
app.command()(ledger.attest)
app.command()(ledger.observe)
app.command()(ledger.history)
app.add_typer(runbook.app, name="runbook")
app.command()(purge.purge)
app.command()(demo)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pipestate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    try:
        app()
    except PipestateError as error:
        print(f"pipestate: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
