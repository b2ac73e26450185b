"""`attest`, `observe`, `history`: what people and probes write down, and what is written."""

import os
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError


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

    Example: pipestate attest restore-tested --by dba@example.com --note "ticket 4711"
    """
    from pipestate import db
    from pipestate.ledger import record as book
    from pipestate.runbook.find import every_runbook
    from pipestate.runbook.model import is_id

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
    redis_url: Annotated[
        str | None,
        typer.Option(
            "--redis-url",
            metavar="URL",
            help="For probes that ask a Redis; else REDIS_URL.",
            show_default=False,
        ),
    ] = None,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Write outside facts into the ledger: what the probes of alembic.ini find, and any number that is given.

    Example: pipestate observe --set open_tickets=12
    """
    from pipestate import db
    from pipestate.ledger import record as book
    from pipestate.ledger.probes import SECTION, run_probes

    to = target(database_url, config)
    given = dict(book.parse_fact(fact) for fact in facts or [])
    if redis_url:
        os.environ["REDIS_URL"] = redis_url
    probed = run_probes(to.ini)
    found = {source.source: source.facts for source in probed} | {"command line": given}
    wrong = [source.error for source in probed if source.error is not None]
    if not any(found.values()) and not wrong:
        raise ConfigError(
            f"nothing to observe: give --set name=value, or name a probe under [{SECTION}] in {to.ini}"
            + (f" ({', '.join(source.source for source in probed)} found nothing)" if probed else "")
        )
    revision = to.revisions().current
    with db.writer(to.url) as connection:
        for source, values in found.items():
            book.observe(connection, values, source=source, revision=revision)
    everything = {name: value for values in found.values() for name, value in values.items()}
    if json_:
        print_json(everything)
    else:
        for name, value in everything.items():
            say(f"{name} = {value:g}")
    for error in wrong[1:]:
        say(f"pipestate: {error}", err=True)
    if wrong:
        raise wrong[0]


def history(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many entries.")] = 20,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """The ledger, newest first.

    Example: pipestate history --limit 5
    """
    from pipestate import db
    from pipestate.ledger.record import history
    from pipestate.render.history import history_as_data, print_history

    to = target(database_url, config)
    with db.reader(to.url) as connection:
        entries = history(connection, limit=limit)
    if json_:
        print_json(history_as_data(entries))
    else:
        print_history(entries, console())
