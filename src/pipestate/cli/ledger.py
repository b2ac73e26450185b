"""`attest`, `observe`, `history`, `ledger`: what people and probes write down, and where."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError, PipestateError
from pipestate.plural import many

if TYPE_CHECKING:
    from pipestate.ledger.history import Entry, Wanted
    from pipestate.ledger.probes import Probed
    from pipestate.ledger.prune import Old

app = typer.Typer(help="Install the ledger, and keep it small.", no_args_is_help=True)


@project_options
def attest(
    to: Target,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[[RUNBOOK/]PHASE/]ID",
            help="The sign-off, as its page names it.",
            autocompletion=complete.signoff,
        ),
    ],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who says so: a name or an address.")],
    note: Annotated[
        str | None,
        typer.Option(
            "--note", metavar="TEXT", help="Where the proof is, such as a ticket.", show_default=False
        ),
    ] = None,
) -> None:
    """Record a sign-off: that a person has done what the page asks for.

    Example: pipestate attest restore-tested --by dba@example.com --note "ticket 4711"
    """
    from pipestate import db
    from pipestate.chain.pages import pages_at
    from pipestate.ledger.attestations import attest as write
    from pipestate.ledger.attestations import find_signoff

    books = pages_at(to.project, name, below=2)
    with db.writer(to.url) as connection:
        position = to.locate(connection)
        asked = find_signoff(name, books, position)
        write(connection, asked, by=by, note=note, revision=position.current)
    say(f"{asked.address} signed off by {by}", err=True)


@project_options
def observe(
    to: Target,
    facts: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A number that you know; as often as needed."),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Record numbers from outside of the database, for checks: those that probes find, and any that you give.

    Which probes are asked stands under \\[pipestate:observe] in alembic.ini.

    Example: pipestate observe --set open_tickets=12
    """
    from pipestate import db
    from pipestate.ledger import observations as book
    from pipestate.ledger.probes import Probed, run_probes

    given = dict(book.parse_fact(fact) for fact in facts or [])
    probed = [*run_probes(to.project), Probed("command line", given)]
    refuse_nothing(probed)
    with db.writer(to.url) as connection:
        revision = to.locate(connection).current
        for each in probed:
            book.observe(connection, each.facts, source=each.source, revision=revision)
    show_facts({name: value for each in probed for name, value in each.facts.items()}, json_=json_)
    say_errors([each.error for each in probed if each.error is not None])


@project_options
def history(
    to: Target,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many lines.")] = 20,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="7d",
            help="Only what is younger: 7d, 12h, or since 2026-01-20.",
            show_default=False,
        ),
    ] = None,
    runbook: Annotated[
        str | None,
        typer.Option(
            "--runbook",
            metavar="NAME",
            help="Only what belongs to this page.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event", metavar="KIND", help="Only this: verify, sign-off, force, …; as often as needed."
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Show what was recorded: checks that ran, revisions, sign-offs, observations; the newest first.

    Of a script that --sql wrote only its gates are there, not the revisions that it applied.

    Example: pipestate history --since 7d --event sign-off
    """
    from pipestate import db
    from pipestate.ledger.history import history as read
    from pipestate.ledger.owners import require_shown
    from pipestate.ledger.sources import installed_sources

    wanted = wanted_lines(limit, since, runbook, event or [])
    others, errors = installed_sources()
    with db.reader(to.url) as connection:
        require_shown(connection, lambda: to.locate(connection))
        lines = read(connection, wanted, others=others)
    show_entries(lines.entries, json_=json_)
    say_errors([*errors, *lines.errors])


def wanted_lines(limit: int, since: str | None, runbook: str | None, kinds: list[str]) -> "Wanted":
    """Put together which lines of the history are asked for."""
    from pipestate.ledger.ages import parse_since
    from pipestate.ledger.history import Wanted

    after = parse_since(since, now=datetime.now(UTC)) if since else None
    return Wanted(limit, after, runbook, frozenset(kinds))


def show_entries(entries: "Sequence[Entry]", *, json_: bool) -> None:
    from pipestate.render.history import as_data, as_table

    if json_:
        print_json(as_data(entries))
        return
    screen = console()
    screen.print(as_table(entries, screen.width) if entries else "The ledger has no such entry.")


@app.command()
@project_options
def install(to: Target) -> None:
    """Create the ledger in this database, or bring an older one up to date. It creates nothing else.

    Example: pipestate ledger install
    """
    from pipestate import db
    from pipestate.ledger.install import install as create

    with db.writer(to.url) as connection:
        create(connection)
    say("the ledger is installed", err=True)


@app.command()
@project_options
def prune(
    to: Target,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="1y", help="Only what is older: 1y, 26w, 90d.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete old records, sign-offs and observations, after asking.

    The records of a soak, everybody's latest word and the latest observation of each name stay, and so does what
    migrations wrote. Checks on pipestate.observed see no further back than what is left: keep as much as they ask.

    Example: pipestate ledger prune --older-than 1y
    """
    from pipestate import db
    from pipestate.ledger import prune as library
    from pipestate.ledger.ages import parse_age

    age = parse_age(older_than, units="ywd")
    with db.writer(to.url) as connection:
        to.locate(connection)
        found = [old for old in library.find_old(connection, age) if old.rows]
        show_old(found, older_than)
        if not found:
            return
        if not yes:
            typer.confirm("Delete this for good?", abort=True, err=True)
        say(f"deleted {many(library.prune(connection, age), 'row')}", err=True)


def show_old(found: "list[Old]", older_than: str) -> None:
    """Say what would be deleted and what checks lose by that, or that there is nothing."""
    for old in found:
        say(f"{old.table}: {many(old.rows, 'row')}")
        if old.looked_back_on:
            say(f"checks on pipestate.observed will see no further back than {older_than}", err=True)
    if not found:
        say(f"nothing in the ledger that could go is older than {older_than}", err=True)


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


def say_errors(errors: Sequence[PipestateError]) -> None:
    """Say of each part that failed why; the first of them decides on the exit code."""
    for error in errors[1:]:
        say(f"pipestate: {error}", err=True)
    if errors:
        raise errors[0]
