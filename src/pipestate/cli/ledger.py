"""`attest`, `observe`, `history`: what people and probes write down, and what is written."""

from typing import Annotated

import typer

from pipestate import db
from pipestate.cli import complete
from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError
from pipestate.ledger import record as book
from pipestate.pipeline.cli.options import RedisUrl
from pipestate.render.machine import instant
from pipestate.runbook.model import is_id


def attest(
    name: Annotated[
        str,
        typer.Argument(help="The sign-off's name, as the runbook has it.", autocompletion=complete.signoff),
    ],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Whose word it is.")],
    note: Annotated[
        str | None,
        typer.Option("--note", metavar="TEXT", help="Where to find what it rests on.", show_default=False),
    ] = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Record a sign-off in the ledger.

    Example: pipestate attest backup-taken --by dba@example.com --note "s3://backups/2026-01-20"
    """
    from pipestate.runbook.find import every_runbook

    to = target(database_url, config)
    known = {
        check.id for runbook in every_runbook(to.ini) for phase in runbook.phases for check in phase.signoffs
    }
    if not is_id(name) or name not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "none here has a sign-off"
        raise ConfigError(f"no runbook asks for {name}; {there}")
    revision = to.revisions().current
    with db.writer(to.url) as connection:
        book.attest(connection, name, by=by, note=note, revision=revision)
    say(f"{name} signed off by {by}", err=True)


def observe(
    facts: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A number from outside; repeatable."),
    ] = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Write outside facts into the ledger: the queues' state, and any number that is given.

    Example: pipestate observe --set sqs_queue_depth=12
    """
    from pipestate.pipeline.queues.probe import probe

    to = target(database_url, config)
    given = dict(book.parse_fact(fact) for fact in facts or [])
    probed = probe(to.ini, redis_url)
    if not given and not probed:
        raise ConfigError(
            "nothing to observe: give --set name=value, or --redis-url (REDIS_URL) for the queues"
        )
    revision = to.revisions().current
    with db.writer(to.url) as connection:
        book.observe(connection, probed, source="rq", revision=revision)
        book.observe(connection, given, source="command line", revision=revision)
    if json_:
        print_json(probed | given)
    else:
        for name, value in (probed | given).items():
            say(f"{name} = {value:g}")


def history(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many entries.")] = 20,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """The ledger, newest first.

    Example: pipestate history --limit 5
    """
    from rich.table import Table

    to = target(database_url, config)
    with db.reader(to.url) as connection:
        entries = book.history(connection, limit=limit)
    if json_:
        print_json(
            [
                {"at": instant(e.at), "kind": e.kind, "who": e.who, "what": e.what, "revision": e.revision}
                for e in entries
            ]
        )
        return
    table = Table("when", "what", "", "who", "at", box=None, header_style="dim", pad_edge=False)
    for entry in entries:
        table.add_row(instant(entry.at), entry.kind, entry.what, entry.who, entry.revision or "base")
    console().print(table if entries else "The ledger is empty.")
