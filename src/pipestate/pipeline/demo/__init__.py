"""`pipestate demo`: a complete walk through the shipped migration, on temporary servers."""

import shlex
from typing import Annotated

import typer

from pipestate.cli.output import say


def demo(
    pause: Annotated[bool, typer.Option("--pause", help="Wait for a key before each command.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the servers running at the end, and say where.")
    ] = False,
    only_database: Annotated[
        bool,
        typer.Option(
            "--only-database",
            help="Start a PostgreSQL with the old world in it, and leave it to you: eval its output in a"
            " shell.",
        ),
    ] = False,
) -> None:
    """Show the whole story on a PostgreSQL and a Redis that are started for it and thrown away.

    Example: pipestate demo --pause
    """
    from pipestate.pipeline.demo import story

    if not only_database:
        story.demo(pause=pause, keep=keep)
        return
    url, ending = story.only_database()
    print(f"export DATABASE_URL={shlex.quote(url)}")
    say(
        "A PostgreSQL with 300 sites in the old schema is running. To stop it, and to remove its files:",
        err=True,
    )
    say(ending, err=True)
