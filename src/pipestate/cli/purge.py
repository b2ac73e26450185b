"""`pipestate purge`: drop archives, after asking."""

from typing import Annotated

import typer

from pipestate.cli.options import Config, DatabaseUrl, target
from pipestate.cli.output import say


def purge(
    older_than: Annotated[str, typer.Option("--older-than", metavar="AGE", help="30d, 12h or 45m.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Drop what the contract put into the archive. After that, no downgrade brings it back.

    Example: pipestate purge --older-than 30d
    """
    from pipestate import db
    from pipestate.ddl import purge as archive
    from pipestate.ledger.ages import parse_age
    from pipestate.render.machine import instant

    to = target(database_url, config)
    age = parse_age(older_than)
    revision = to.revisions().current
    with db.writer(to.url) as connection:
        things = archive.find(connection, age)
        for thing in things:
            say(
                f"{thing.table}: {thing.kind} {thing.name}, {thing.rows} rows, since {instant(thing.archived_at)}"
            )
        if not things:
            say(f"nothing in the archive is older than {older_than}", err=True)
            return
        if not yes:
            typer.confirm("Drop this for good?", abort=True, err=True)
        archive.drop(connection, things, revision=revision)
    say(f"dropped {len(things)}; the ledger says so", err=True)
