"""`pipestate guard`: the guard in the server, which refuses drops that psql or another tool sends."""

from typing import Annotated

import typer

from pipestate.cli.options import Target, project_options
from pipestate.cli.output import say

app = typer.Typer(help="Let the server refuse drops that pass no gate.", no_args_is_help=True)


@app.command()
@project_options
def install(
    to: Target,
    exempt_role: Annotated[
        list[str] | None,
        typer.Option("--exempt-role", metavar="ROLE", help="A role that may drop anything. May be repeated."),
    ] = None,
    exempt_schema: Annotated[
        list[str] | None,
        typer.Option(
            "--exempt-schema",
            metavar="SCHEMA",
            help="A schema in which every role may drop objects. May be repeated.",
        ),
    ] = None,
) -> None:
    """Create event triggers that refuse to drop a table or column without a gate or a reason.

    It needs the ledger, and a superuser. The exemptions replace those of an earlier install.

    Example: pipestate guard install --exempt-role pg_repack --exempt-schema partman
    """
    from pipestate.database import connections as db
    from pipestate.ledger.server_guard import install_server_guard

    with db.writer(to.url) as connection:
        install_server_guard(connection, exempt_role or (), exempt_schema or ())
    say("the server now refuses to drop tables and columns without a gate or a reason", err=True)


@app.command()
@project_options
def remove(to: Target) -> None:
    """Drop the event triggers and their functions.

    Example: pipestate guard remove
    """
    from pipestate.database import connections as db
    from pipestate.ledger.server_guard import remove_server_guard

    with db.writer(to.url) as connection:
        was_there = remove_server_guard(connection)
    say("the guard in the server is removed" if was_there else "there is no guard in the server", err=True)


@app.command()
@project_options
def check(to: Target) -> None:
    """Say whether the guard in the server is complete, and whom it exempts.

    Exit code 0: it is; 1: it is missing, disabled or altered; 3: no connection.

    Example: pipestate guard check
    """
    from pipestate.database import connections as db
    from pipestate.ledger.server_guard import INSTALL, read_server_guard

    with db.reader(to.url) as connection:
        found = read_server_guard(connection)
    if found is None:
        say(f"there is no guard in the server; to create it: {INSTALL}")
    elif found.fault:
        say(found.fault)
    else:
        say(f"the guard in the server is complete; it belongs to {found.owner}")
        for kind, names in (("roles", found.roles), ("schemas", found.schemas)):
            if names:
                say(f"exempt {kind}: {', '.join(names)}")
    raise typer.Exit(0 if found is not None and found.fault is None else 1)
