"""`attest`, `observe`, `history`: what people and probes write down, and what is written."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from pipestate.ledger.probes import Probed


@project_options
def attest(
    to: Target,
    name: Annotated[
        str,
        typer.Argument(help="The sign-off's name, as the runbook has it.", autocompletion=complete.signoff),
    ],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Whose word it is.")],
    note: Annotated[
        str | None,
        typer.Option("--note", metavar="TEXT", help="Where to find what it rests on.", show_default=False),
    ] = None,
) -> None:
    """Record a sign-off in the ledger.

    Example: pipestate attest restore-tested --by dba@example.com --note "ticket 4711"
    """
    from pipestate import db
    from pipestate.ledger import record as book
    from pipestate.runbook.find import every_runbook
    from pipestate.runbook.model import is_id

    books = every_runbook(to.project.runbooks)
    known = {check.id for runbook in books for phase in runbook.phases for check in phase.signoffs}
    if not is_id(name) or name not in known:
        there = f"there are {', '.join(sorted(known))}" if known else "none here has a sign-off"
        raise ConfigError(f"no runbook asks for {name}; {there}")
    with db.writer(to.url) as connection:
        book.attest(connection, name, by=by, note=note, revision=to.locate(connection).current)
    say(f"{name} signed off by {by}", err=True)


@project_options
def observe(
    to: Target,
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
) -> None:
    """Write outside facts into the ledger: what the probes of alembic.ini find, and any number that is given.

    Example: pipestate observe --set open_tickets=12
    """
    from pipestate import db
    from pipestate.ledger import record as book
    from pipestate.ledger.probes import Probed, run_probes

    if redis_url:
        os.environ["REDIS_URL"] = redis_url
    given = dict(book.parse_fact(fact) for fact in facts or [])
    probed = [*run_probes(to.project), Probed("command line", given)]
    refuse_nothing(probed)
    with db.writer(to.url) as connection:
        revision = to.locate(connection).current
        for each in probed:
            book.observe(connection, each.facts, source=each.source, revision=revision)
    show_facts({name: value for each in probed for name, value in each.facts.items()}, json_=json_)
    say_errors(probed)


@project_options
def history(
    to: Target,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many entries.")] = 20,
    json_: AsJson = False,
) -> None:
    """Show the ledger, newest first.

    Example: pipestate history --limit 5
    """
    from pipestate import db
    from pipestate.ledger.record import history
    from pipestate.render.history import history_as_data, print_history

    with db.reader(to.url) as connection:
        entries = history(connection, limit=limit)
    if json_:
        print_json(history_as_data(entries))
    else:
        print_history(entries, console())


def refuse_nothing(probed: "list[Probed]") -> None:
    """Raise where nothing was found and nothing went wrong: an observation that says nothing helps nobody."""
    from pipestate.ledger.probes import SECTION

    if any(each.facts or each.error for each in probed):
        return
    empty = ", ".join(each.source for each in probed[:-1])
    raise ConfigError(
        f"nothing to observe: give --set name=value, or name a probe under [{SECTION}] in alembic.ini"
        + (f" ({empty} found nothing to ask)" if empty else "")
    )


def show_facts(facts: dict[str, float], *, json_: bool) -> None:
    if json_:
        print_json(facts)
        return
    for name, value in facts.items():
        say(f"{name} = {value:g}")


def say_errors(probed: "list[Probed]") -> None:
    """Say of each probe that failed why; the first of them decides on the exit code."""
    errors = [each.error for each in probed if each.error is not None]
    for error in errors[1:]:
        say(f"pipestate: {error}", err=True)
    if errors:
        raise errors[0]
