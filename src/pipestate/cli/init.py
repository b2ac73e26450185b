"""The commands `init`, `revision` and `eject`: files that pipestate writes into a project."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import Target, complete_phase, project_options
from pipestate.cli.output import say
from pipestate.core.errors import ConfigError
from pipestate.core.text import from_here, many, plain_lines
from pipestate.project.find import Calls, Named, Project

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipestate.project.scaffold.contract import Contracted
    from pipestate.project.scaffold.draft import Draft
    from pipestate.project.scaffold.revision import Dropped, Started

GUARD = """
In {env}, below `from alembic import context`:

    from pipestate.environment import guard

    guard(context)
"""
PER_MIGRATION = """
In {env}, as an argument of context.configure(...), so that a closed gate keeps the revisions before it:

    transaction_per_migration=True,
"""
CI = """
In CI:

    {lint}

Every day, on the real database:

    {record}
"""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
RevId = Annotated[
    str | None, typer.Option("--rev-id", metavar="ID", help="Id of the new revision; else a random one.")
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head", metavar="REV", help="Head that the new revision follows, if the project has several."
    ),
]
VersionPath = Annotated[
    Path | None,
    typer.Option(
        "--version-path",
        metavar="DIR",
        help="Directory of the new revision, if there are several version locations.",
    ),
]


@project_options
def init(
    project: Project,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new runbook, after the change.")
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
    from pipestate.project.revision_files import read_migrations
    from pipestate.project.scaffold.revision import MESSAGE, WantedRevision, draft_start

    refuse_shipped(project)
    wanted = WantedRevision(MESSAGE, rev_id, head, version_path)
    started = draft_start(project, read_migrations(project), name, wanted)
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
            "--recheck", metavar="CHECK", help="Evaluate this check again under the lock; repeatable."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="NAME", help="Database of the contract, if env.py migrates several (multidb)."
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
    from pipestate.project.revision_files import read_migrations
    from pipestate.project.scaffold.contract import draft_contract
    from pipestate.project.scaffold.revision import WantedRevision, read_dropped

    refuse_shipped(project)
    dropped = read_dropped(tables or [], columns or [])
    wanted = WantedRevision(message or f"drop {dropped}", rev_id, head, version_path)
    drafted = draft_contract(
        *(project, read_migrations(project), contract, dropped, wanted),
        recheck=recheck or [],
        engine=engine,
        counts=counts_statements(project, dropped),
    )
    write_or_show(drafted.drafts, next_step(drafted, project.named), dry_run=dry_run)


@project_options
def eject(
    to: Target,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Leave pipestate: rewrite revisions and env.py to plain Alembic, and drop the ledger after asking.

    Purge or restore soft-dropped objects first. If lines need rewriting by hand, it lists them and changes nothing.

    Example: pipestate eject --dry-run
    """
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
        ledger = "drop the ledger with all records" if installed else "leave the database as it is"
        if not yes:
            typer.confirm(f"Change {many(len(drafts), 'file')}, and {ledger}?", abort=True, err=True)
        drop_ledger(connection)
        write(drafts)
    say("\n".join([*([written(drafts)] if drafts else []), *(["dropped the ledger"] if installed else [])]))


def draft_eject_of(to: Target, connection: "Connection") -> "tuple[list[Draft], bool]":
    """Draft the files without pipestate, and tell whether the database has a ledger."""
    from pipestate.database.connections import engine_of
    from pipestate.ledger.state import read_ledger_state
    from pipestate.migration.purge import known_columns, require_nothing_hidden
    from pipestate.project.scaffold.eject import draft_eject

    purge = to.calls.pipestate("purge --older-than 0m")
    require_nothing_hidden(connection, to.locate(connection), to.calls.pipestate, purge)
    known = known_columns(connection)
    drafts = draft_eject(to.project, to.migrations, known, server=not engine_of(connection).IS_FILE)
    return drafts, read_ledger_state(connection).installed


def counts_statements(project: Project, dropped: "Dropped") -> bool | None:
    """Tell whether PostgreSQL has pg_stat_statements; None if it is unreachable, or another engine is used.

    If the database lacks a dropped table, and has one with a similar name, warn.
    """
    from sqlalchemy import inspect

    from pipestate.core.errors import PipestateError
    from pipestate.database import connections as db
    from pipestate.database.connections import engine_of
    from pipestate.database.urls import known_url
    from pipestate.ledger.statements import find_source

    try:
        url = known_url(ini_url=lambda: project.option("sqlalchemy.url"))
        if url is None:
            return None
        with db.reader(url) as connection:
            for table in (*dropped.tables, *dropped.columns):
                schema, _, name = table.rpartition(".")
                there = inspect(connection).get_table_names(schema or None)
                near = difflib.get_close_matches(name, there, n=1)
                if near and name not in there:
                    say(f"warning: the database has no table {table}, but {near[0]}", err=True)
            return None if engine_of(url).IS_FILE else find_source(connection) is not None
    except PipestateError:
        return None


def write_or_show(drafts: "Sequence[Draft]", next_: str, *, dry_run: bool) -> None:
    """Write the files and print the next steps; with `dry_run`, only show their content."""
    from pipestate.project.scaffold.draft import write

    if dry_run:
        print(shown(drafts))
        return
    write(drafts)
    say(f"{written(drafts)}\n{next_}")


def refuse_shipped(project: Project) -> None:
    if project.named.shipped:
        raise ConfigError(
            "--shipped: those migrations come with pipestate; name a project of yours to write into"
        )


def written(drafts: "Sequence[Draft]") -> str:
    """List the written files."""
    return "\n".join(f"{'changed' if draft.replaces else 'wrote'} {draft.path}" for draft in drafts)


def shown(drafts: "Sequence[Draft]") -> str:
    """Show the files of a dry run; of an existing file, the difference."""
    parts = []
    for draft in drafts:
        if draft.replaces is None:
            parts.append(f"would write {draft.path}:\n\n{_indented(draft.text.splitlines())}")
        else:
            before, after = draft.replaces.splitlines(), draft.text.splitlines()
            changed = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
            parts.append(f"would change {draft.path}:\n\n{_indented(changed)}")
    return plain_lines("\n".join([*parts, "Nothing was written."]))


def advice(started: "Started", named: Named) -> str:
    """List the manual steps after `init`."""
    calls = Calls(named)
    pasted = ("" if started.guarded else GUARD) + ("" if started.per_migration else PER_MIGRATION)
    guard = pasted.format(env=from_here(started.env))
    ci = CI.format(lint=calls.pipestate("runbook lint"), record=calls.pipestate("verify --record"))
    return f"{guard}{ci}\nNext: write the checks of {started.page}, then {calls.alembic('upgrade head')}"


def next_step(drafted: "Contracted", named: Named) -> str:
    """Describe the runbook's new text, and the command that evaluates the contract's gate."""
    calls, phase = Calls(named), drafted.phase.name
    stops = (
        ("its checks stop after that revision")
        if phase in drafted.ends
        else "its checks continue after that revision"
    )
    ends = [name for name in drafted.ends if name != phase]
    gate = calls.pipestate(f"gate {drafted.runbook.name}/{phase}")
    lines = [f"  {phase} guards {drafted.revision}; {stops}"]
    lines += [f"  phases that end at this revision, too: {', '.join(ends)}"] if ends else []
    lines += (
        [f"  phases that continue after this revision: {', '.join(drafted.stays)}"] if drafted.stays else []
    )
    lines += ["", f"Next: {gate}", f"and once that is open: {calls.alembic('upgrade head')}"]
    return "\n".join(lines)


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)
