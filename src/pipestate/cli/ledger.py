"""`attest`, `observe`, `history`, `ledger`: what people and probes write down, and where."""

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError

app = typer.Typer(help="Install the ledger, and keep it small.", no_args_is_help=True)


def attest(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[[RUNBOOK/]PHASE/]ID",
            help="The sign-off, as the runbook names it.",
            autocompletion=complete.signoff,
        ),
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
    from pipestate.ledger.attestations import attest as write
    from pipestate.ledger.attestations import find_signoff
    from pipestate.runbook.find import every_runbook

    to = target(database_url, config)
    position = to.revisions()
    asked = find_signoff(name, every_runbook(to.ini), position)
    with db.writer(to.url) as connection:
        write(connection, asked, by=by, note=note, revision=position.current)
    say(f"{asked.address} signed off by {by}", err=True)


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
    from pipestate.ledger import observations as book
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
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="7d, 12h, or 2026-01-20.", show_default=False),
    ] = None,
    runbook: Annotated[
        str | None,
        typer.Option(
            "--runbook",
            metavar="NAME",
            help="Only what belongs to this runbook.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="KIND", help="Only these: verify, gate, sign-off, …; repeatable."),
    ] = None,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """The ledger, newest first.

    Example: pipestate history --since 7d --event sign-off
    """
    from pipestate import db
    from pipestate.ledger.ages import parse_since
    from pipestate.ledger.history import Wanted
    from pipestate.ledger.history import history as read
    from pipestate.plugins import histories
    from pipestate.render.history import as_data, as_table

    to = target(database_url, config)
    after = parse_since(since, now=datetime.now(UTC)) if since else None
    wanted = Wanted(limit, after, runbook, frozenset(event or ()))
    with db.reader(to.url) as connection:
        entries = read(connection, wanted, others=[each.load() for each in histories().values()])
    if json_:
        print_json(as_data(entries))
    else:
        console().print(as_table(entries) if entries else "The ledger has no such entry.")


@app.command()
def install(database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Create the ledger in this database, or bring an older one up to date. Nothing else is created.

    Example: pipestate ledger install
    """
    from pipestate import db
    from pipestate.ledger.install import install as create

    with db.writer(target(database_url, config).url) as connection:
        create(connection)
    say("the ledger is installed", err=True)


@app.command()
def prune(
    older_than: Annotated[str, typer.Option("--older-than", metavar="AGE", help="1y, 26w or 90d.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Delete old records, sign-offs and observations; never what a gate rests on, or what a migration wrote.

    Example: pipestate ledger prune --older-than 1y
    """
    from pipestate import db
    from pipestate.ledger import prune as library
    from pipestate.ledger.ages import parse_age

    age = parse_age(older_than, units="ywd")
    with db.writer(target(database_url, config).url) as connection:
        found = library.find_old(connection, age)
        for old in found:
            say(f"{old.table}: {old.rows} rows")
        if not any(old.rows for old in found):
            say(f"nothing in the ledger that could go is older than {older_than}", err=True)
            return
        if not yes:
            typer.confirm("Delete this for good?", abort=True, err=True)
        say(f"deleted {library.prune(connection, age)} rows", err=True)
