"""The commands `init`, `revision` and `eject`: files that pipestate writes into a project."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import Target, complete_phase, project_options
from pipestate.cli.output import say
from pipestate.core.errors import ConfigError
from pipestate.core.text import many
from pipestate.project.find import Project

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipestate.project.scaffold.draft import Draft

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
RevId = Annotated[
    str | None, typer.Option("--rev-id", metavar="ID", help="Id of the new revision; else a random one.")
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head", metavar="REV", help="What the new revision follows, where the chain has several heads."
    ),
]
VersionPath = Annotated[
    str | None,
    typer.Option(
        "--version-path",
        metavar="DIR",
        help="Where the new revision goes, where there are several version locations.",
    ),
]


@project_options
def init(
    project: Project,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the runbook: what changes.")
    ] = "migration",
    rev_id: RevId = None,
    head: Head = None,
    version_path: VersionPath = None,
    dry_run: DryRun = False,
) -> None:
    """Begin in an Alembic project: write a runbook to fill in, and a revision that installs the ledger.

    It overwrites nothing, and says what to paste into env.py and CI, and what comes next.

    Example: pipestate init orders
    """
    from pipestate.cli.formats.scaffold import advice
    from pipestate.project.revision_files import read_chain
    from pipestate.project.scaffold.revision import MESSAGE, WantedRevision, draft_start

    refuse_shipped(project)
    wanted = WantedRevision(MESSAGE, rev_id, head, Path(version_path) if version_path else None)
    started = draft_start(project, read_chain(project), name, wanted)
    write_or_show(started.drafts, advice(started, project.named), dry_run=dry_run)


@project_options
def revision(
    project: Project,
    contract: Annotated[
        str,
        typer.Option(
            "--contract",
            metavar="RUNBOOK/PHASE",
            help="The gate that the revision waits for.",
            autocompletion=complete_phase,
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-table",
            metavar="TABLE",
            help="A table to drop, TABLE or SCHEMA.TABLE; as often as needed.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-column",
            metavar="TABLE.COLUMN",
            help="A column to drop, also SCHEMA.TABLE.COLUMN; as often as needed.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="Title of the revision; the default names the dropped objects.",
        ),
    ] = None,
    recheck: Annotated[
        list[str] | None,
        typer.Option(
            "--recheck", metavar="CHECK", help="Ask this check again under the lock; as often as needed."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="NAME", help="In which database, where env.py knows several (multidb)."
        ),
    ] = None,
    rev_id: RevId = None,
    head: Head = None,
    version_path: VersionPath = None,
    dry_run: DryRun = False,
) -> None:
    """Write a contract: a revision that drops tables and columns behind a gate, and can restore them.

    Earlier phases that read what is dropped end with it: the runbook gets their `until`. If the project's PostgreSQL
    answers, the runbook gets a check for disuse; without pg_stat_statements the check only warns.

    Example: pipestate revision --contract orders/readiness --drop-table order_log -m "the log goes"
    """
    from pipestate.cli.formats.scaffold import next_step
    from pipestate.project.revision_files import read_chain
    from pipestate.project.scaffold.contract import draft_contract
    from pipestate.project.scaffold.revision import WantedRevision, read_dropped

    refuse_shipped(project)
    dropped = read_dropped(tables or [], columns or [])
    wanted = WantedRevision(
        message or f"drop {dropped}", rev_id, head, Path(version_path) if version_path else None
    )
    drafted = draft_contract(
        *(project, read_chain(project), contract, dropped, wanted),
        recheck=recheck or [],
        engine=engine,
        counts=counts_statements(project),
    )
    write_or_show(drafted.drafts, next_step(drafted, project.named), dry_run=dry_run)


@project_options
def eject(
    to: Target,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Leave pipestate: rewrite revisions and env.py to plain Alembic, and drop the ledger after asking.

    A soft-dropped object must be purged or restored first. A file without a certain equivalent is refused.

    Example: pipestate eject --dry-run
    """
    from pipestate.cli.formats.scaffold import shown, written
    from pipestate.migration.purge import drop_ledger
    from pipestate.project.scaffold.draft import write

    refuse_shipped(to.project)
    with to.connect(write=True) as (connection, _):
        drafts, installed = draft_eject_of(to, connection)
        if dry_run:
            print(shown(drafts))
            return
        if not drafts and not installed:
            say("nothing to do: no file imports pipestate, and the database has no ledger")
            return
        confirm_eject(len(drafts), installed, yes)
        drop_ledger(connection)
        write(drafts)
    say("\n".join([*([written(drafts)] if drafts else []), *(["dropped the ledger"] if installed else [])]))


def draft_eject_of(to: Target, connection: "Connection") -> "tuple[list[Draft], bool]":
    """Draft the files without pipestate, and tell whether the database has a ledger."""
    from pipestate.database.connections import engine_of
    from pipestate.ledger.state import look
    from pipestate.migration.purge import known_columns, require_nothing_hidden
    from pipestate.project.scaffold.eject import draft_eject

    restore = to.calls.pipestate("downgrade {revision}-1")
    require_nothing_hidden(connection, restore, to.calls.pipestate("purge --older-than 0m"))
    known = known_columns(connection)
    drafts = draft_eject(to.project, to.chain, known, server=not engine_of(connection).IS_FILE)
    return drafts, look(connection).installed


def confirm_eject(files: int, installed: bool, yes: bool) -> None:
    if not yes:
        ledger = "drop the ledger with all records" if installed else "leave the database as it is"
        typer.confirm(f"Change {many(files, 'file')}, and {ledger}?", abort=True, err=True)


def counts_statements(project: Project) -> bool | None:
    """Tell whether the database has pg_stat_statements; None if PostgreSQL is unreachable or another engine is used."""
    from pipestate.core.errors import PipestateError
    from pipestate.database import connections as db
    from pipestate.database.connections import engine_of
    from pipestate.database.urls import known_url
    from pipestate.ledger.statements import find_source

    try:
        url = known_url(ini_url=lambda: project.option("sqlalchemy.url"))
        if url is None or engine_of(url).IS_FILE:
            return None
        with db.reader(url) as connection:
            return find_source(connection) is not None
    except PipestateError:
        return None


def write_or_show(drafts: "Sequence[Draft]", next_: str, *, dry_run: bool) -> None:
    """Write the files and print the next steps; with `dry_run`, only show their content."""
    from pipestate.cli.formats.scaffold import shown, written
    from pipestate.project.scaffold.draft import write

    if dry_run:
        print(shown(drafts))
        return
    write(drafts)
    say(f"{written(drafts)}\n{next_}")


def refuse_shipped(project: Project) -> None:
    if project.named.shipped:
        raise ConfigError("--shipped: that chain comes with pipestate; name a project of yours to write into")
