"""`pipestate purge`: drop archives, after asking."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import Target, project_options
from pipestate.cli.output import say

if TYPE_CHECKING:
    from pipestate.ddl.purge import Archived


@project_options
def purge(
    to: Target,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="30d", help="Only what has been there for longer: 30d, 12h, 45m."
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Drop what contracts put into the archive, after asking. After that, no downgrade brings it back.

    Example: pipestate purge --older-than 30d
    """
    from pipestate import db
    from pipestate.ddl import purge as archive
    from pipestate.ledger.ages import parse_age

    age = parse_age(older_than)
    with db.writer(to.url) as connection:
        revision = to.locate(connection).current
        things = archive.find(connection, age)
        show_archived(things, older_than)
        if not things:
            return
        if not yes:
            typer.confirm("Drop this for good?", abort=True, err=True)
        kept = archive.drop(connection, things, revision=revision)
    say(f"dropped all of it{'; the ledger says so' if kept else ''}", err=True)


def show_archived(things: "list[Archived]", older_than: str) -> None:
    """Say what would be dropped, or that there is nothing."""
    from pipestate.render.archive import archived_as_lines

    for line in archived_as_lines(things):
        say(line)
    if not things:
        say(f"nothing in the archive is older than {older_than}", err=True)
