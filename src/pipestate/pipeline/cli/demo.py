"""`pipestate demo`: the whole story of the shipped migration."""

from typing import Annotated

import typer


def demo(
    pause: Annotated[bool, typer.Option("--pause", help="Wait for a key before each command.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the servers running at the end, and say where.")
    ] = False,
) -> None:
    """Show the whole story on a PostgreSQL and a Redis that are started for it and thrown away.

    Example: pipestate demo --pause
    """
    from pipestate.pipeline.demo.story import demo

    demo(pause=pause, keep=keep)
