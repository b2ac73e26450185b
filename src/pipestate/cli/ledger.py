"""The commands `attest`, `observe`, `history`, `purge` and `ledger`: records, and soft-dropped objects."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import AsJson, Target, complete_runbook, complete_signoff, project_options
from pipestate.cli.output import console, print_answer, print_json, say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.text import many

if TYPE_CHECKING:
    from pipestate.probes import Probed

app = typer.Typer(help="Install the ledger, and keep it small.", no_args_is_help=True)


@project_options
def attest(
    to: Target,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[[RUNBOOK/]PHASE/]ID",
            help="The sign-off, as the runbook names it.",
            autocompletion=complete_signoff,
        ),
    ],
    by: Annotated[
        str, typer.Option("--by", metavar="WHO", help="The person who signs: a name or an address.")
    ],
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="A reference, such as a ticket.")
    ] = None,
) -> None:
    """Record a sign-off: a person confirms an item of the runbook.

    Example: pipestate attest restore-tested --by dba@example.com --note "ticket 4711"
    """
    from pipestate.ledger.record import attest as write
    from pipestate.ledger.record import find_signoff
    from pipestate.project.phases import load_runbooks

    books = load_runbooks(to.project, name, below=2)
    with to.connect(write=True) as (connection, position):
        request = find_signoff(name, books, position)
        write(connection, request, by=by, note=note, revision=position.current)
    say(f"{request.address} signed off by {by}", err=True)


@project_options
def observe(
    to: Target,
    facts: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A number to record; repeatable.")
    ] = None,
    json_: AsJson = False,
) -> None:
    """Record numbers from outside the database, for checks: those of the probes, and those of --set.

    The section [pipestate:observe] of alembic.ini names the probes.

    Example: pipestate observe --set open_tickets=12
    """
    from pipestate.ledger import record as book
    from pipestate.probes import Probed, reads_statements, run_probes, run_statements_probe

    given = dict(book.parse_fact(fact) for fact in facts or [])
    probed = [*run_probes(to.project), Probed("command line", given)]
    if not reads_statements(to.project):
        refuse_nothing(probed)
    with to.connect(write=True) as (connection, position):
        probed += run_statements_probe(to.project, connection, position)
        for each in probed:
            book.observe(connection, each.facts, source=each.source, revision=position.current)
    numbers = {name: value for each in probed for name, value in each.facts.items()}
    print_answer(numbers, (f"{name} = {value:g}" for name, value in numbers.items()), json_=json_)
    say_errors([each.error for each in probed if each.error is not None])


@project_options
def history(
    to: Target,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N entries.")] = 20,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="7d", help="Show only newer entries: 7d, 12h, or 2026-01-20."),
    ] = None,
    runbook: Annotated[
        str | None,
        typer.Option(
            "--runbook",
            metavar="NAME",
            help="Show only entries of this runbook.",
            autocompletion=complete_runbook,
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event", metavar="KIND", help="Show only this kind: verify, sign-off, force, …; repeatable."
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Show the ledger: runs, revisions, sign-offs, observations; the newest first.

    A script of --sql records its gates, not the revisions that it applied.

    Example: pipestate history --since 7d --event sign-off
    """
    from pipestate.cli.formats.plan import print_history
    from pipestate.core.text import parse_since
    from pipestate.database import connections as db
    from pipestate.database.urls import database_name, shown
    from pipestate.ledger.history import Wanted, installed_sources
    from pipestate.ledger.history import history as read
    from pipestate.ledger.state import require_shown

    after = parse_since(since, now=datetime.now(UTC)) if since else None
    others, errors = installed_sources()
    with db.reader(to.url) as connection:
        require_shown(connection, lambda: to.locate(connection))
        lines = read(connection, Wanted(limit, after, runbook, frozenset(event or [])), others=others)
    if json_:
        print_json(lines.entries)
    else:
        titles = {revision.id: revision.title for revision in to.migrations}
        print_history(lines.entries, titles, database_name(shown(to.url)), console(), limit=limit)
    say_errors([*errors, *lines.errors])


@project_options
def purge(
    to: Target,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="30d", help="Only objects dropped longer ago: 30d, 12h, 45m."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Drop soft-dropped tables and columns for good, after asking. No downgrade restores them after that.

    Example: pipestate purge --older-than 30d
    """
    from pipestate.cli.formats.layout import soft_dropped_as_lines
    from pipestate.core.text import parse_age
    from pipestate.migration import purge as archive

    age = parse_age(older_than)
    with to.connect(write=True) as (connection, position):
        things = archive.find(connection, age)
        if not things:
            say(f"nothing was soft-dropped longer than {older_than} ago", err=True)
            return
        say("\n".join(soft_dropped_as_lines(things)))
        if not yes:
            typer.confirm("Drop this for good?", abort=True, err=True)
        kept = archive.drop(connection, things, revision=position.current)
    say(f"dropped all of it{'; the ledger says so' if kept else ''}", err=True)


@app.command()
@project_options
def install(to: Target) -> None:
    """Create the ledger in this database, or update an older one.

    Example: pipestate ledger install
    """
    from pipestate.database import connections as db
    from pipestate.ledger.install import install as create

    with db.writer(to.url) as connection:
        create(connection)
    say("the ledger is installed", err=True)


@app.command()
@project_options
def adopt(to: Target) -> None:
    """Count the records of a copied database here: its sign-offs, soaks and rehearsals.

    A TEMPLATE copy or a restored dump brings the ledger of its original, and counts none of these.

    Example: pipestate ledger adopt
    """
    from pipestate.ledger.record import adopt as write

    with to.connect(write=True) as (connection, position):
        adopted = write(connection, revision=position.current)
    say(f"adopted {adopted}" if adopted else "nothing to adopt: every record is of this database", err=True)


@app.command()
@project_options
def prune(
    to: Target,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="1y", help="Delete only older rows: 1y, 26w, 90d.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete old records, sign-offs and observations, after asking.

    The records of a soak, the latest sign-off of each person, the latest observation of each name and the records of
    migrations stay. Checks on pipestate.observed lose older observations: keep as many as they need.

    Example: pipestate ledger prune --older-than 1y
    """
    from pipestate.core.text import parse_age
    from pipestate.ledger import prune as library

    age = parse_age(older_than, units="ywd")
    with to.connect(write=True) as (connection, _):
        found = [old for old in library.find_old(connection, age) if old.rows]
        if not found:
            say(f"the ledger has no record to delete that is older than {older_than}", err=True)
            return
        for old in found:
            say(f"{old.table}: {many(old.rows, 'row')}")
            if old.is_read_back:
                say(f"checks on pipestate.observed now see only the last {older_than}", err=True)
        if not yes:
            typer.confirm("Delete this for good?", abort=True, err=True)
        say(f"deleted {many(library.prune(connection, age), 'row')}", err=True)


def refuse_nothing(probed: "list[Probed]") -> None:
    """Raise if both observations and errors are absent."""
    from pipestate.probes import SECTION

    if any(each.facts or each.error for each in probed):
        return
    empty = ", ".join(each.source for each in probed[:-1])
    raise ConfigError(
        f"nothing to observe: give --set name=value, or name a probe under [{SECTION}] in alembic.ini"
        + (f" ({empty} found nothing to read)" if empty else "")
    )


def say_errors(errors: Sequence[PipestateError]) -> None:
    """Print each error; the first one decides the exit code."""
    for error in errors[1:]:
        say(f"pipestate: {error}", err=True)
    if errors:
        raise errors[0]
