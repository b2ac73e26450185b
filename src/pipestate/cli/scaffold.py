"""`init` and `revision`: what pipestate writes into a project. Without a database, and without Alembic."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.chain.project import Project
from pipestate.cli import complete
from pipestate.cli.options import project_options
from pipestate.cli.output import say
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from pipestate.scaffold.draft import Draft

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")]
RevId = Annotated[
    str | None,
    typer.Option(
        "--rev-id", metavar="ID", help="Id of the new revision; else a random one.", show_default=False
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="REV",
        help="What the new revision follows, where the chain has several heads.",
        show_default=False,
    ),
]
VersionPath = Annotated[
    str | None,
    typer.Option(
        "--version-path",
        metavar="DIR",
        help="Where the new revision goes, where there are several version locations.",
        show_default=False,
    ),
]


@project_options
def init(
    project: Project,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the runbook: what is going to change.")
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
    from pipestate.chain.read import read_chain
    from pipestate.render.scaffold import advice
    from pipestate.scaffold.place import WantedRevision
    from pipestate.scaffold.start import MESSAGE, draft_start

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
            autocompletion=complete.phase,
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-table",
            metavar="TABLE",
            help="A table that goes, TABLE or SCHEMA.TABLE; as often as needed.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-column",
            metavar="TABLE.COLUMN",
            help="A column that goes, also SCHEMA.TABLE.COLUMN; as often as needed.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="What the revision does; else what it drops.",
            show_default=False,
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
            "--engine",
            metavar="NAME",
            help="In which database, where env.py knows several (multidb).",
            show_default=False,
        ),
    ] = None,
    rev_id: RevId = None,
    head: Head = None,
    version_path: VersionPath = None,
    dry_run: DryRun = False,
) -> None:
    """Write a contract: a revision that drops tables and columns behind a gate, with a way back.

    The page learns of it: its phase opens the revision, and phases that ask what goes end with it.

    Example: pipestate revision --contract orders/readiness --drop-table order_log -m "the log goes"
    """
    from pipestate.chain.read import read_chain
    from pipestate.render.scaffold import next_step
    from pipestate.scaffold.contract import draft_contract
    from pipestate.scaffold.going import read_going
    from pipestate.scaffold.place import WantedRevision

    refuse_shipped(project)
    going = read_going(tables or [], columns or [])
    wanted = WantedRevision(
        message or f"drop {going}", rev_id, head, Path(version_path) if version_path else None
    )
    drafted = draft_contract(
        project, read_chain(project), contract, going, wanted, recheck=recheck or [], engine=engine
    )
    write_or_show(drafted.drafts, next_step(drafted, project.named), dry_run=dry_run)


def write_or_show(drafts: "Sequence[Draft]", next_: str, *, dry_run: bool) -> None:
    """Write the files, and say what comes next; with `dry_run` only show what they would hold."""
    from pipestate.render.scaffold import shown, written
    from pipestate.scaffold.draft import write

    if dry_run:
        print(shown(drafts))
        return
    write(drafts)
    say(f"{written(drafts)}\n{next_}")


def refuse_shipped(project: Project) -> None:
    if project.named.shipped:
        raise ConfigError("--shipped: that chain comes with pipestate; name a project of yours to write into")
