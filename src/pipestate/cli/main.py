"""The `pipestate` command: its commands, and the one place that turns errors into exit codes."""

import errno
import gc
import io
import os
import signal
import sys
from typing import Annotated

import typer

from pipestate import __version__
from pipestate.cli.commands import Commands
from pipestate.cli.output import say
from pipestate.core.errors import PipestateError
from pipestate.database.urls import shipped_root

app = typer.Typer(
    cls=Commands,
    help="Runbooks that run, and destructive migrations that wait for their gate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pipestate {__version__}")
        raise typer.Exit


def _alembic_ini(asked: bool) -> None:
    if asked:
        typer.echo(shipped_root() / "alembic.ini")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    alembic_ini: Annotated[
        bool,
        typer.Option(
            "--alembic-ini",
            callback=_alembic_ini,
            is_eager=True,
            help="Show where the shipped alembic.ini is, for alembic -c or ALEMBIC_CONFIG.",
        ),
    ] = False,
) -> None:
    del version, alembic_ini


def main() -> None:
    gc.set_threshold(
        100_000, 50, 100
    )  # a command lives for a second; the default collection rate costs a tenth of it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows a question mark
    try:
        try:
            app(prog_name="pipestate")
        finally:
            sys.stdout.flush()
    except PipestateError as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only Python's shutdown is left
        say(f"pipestate: {error}", err=True)
        raise SystemExit(error.exit_code) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # prevents a second flush at exit
        say(f"pipestate: cannot write the output: {error.strerror}", err=True)
        raise SystemExit(3) from error
