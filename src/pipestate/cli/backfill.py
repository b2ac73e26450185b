"""`pipestate backfill`: a page's UPDATE, in batches; without a name, what an installed package offers."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli import complete
from pipestate.cli.bare import with_bare_form
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_json, say
from pipestate.cli.progress import progress
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from pipestate.backfill.find import Found

LARGEST_BATCH = 50_000
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        metavar="N",
        help="Rows in one transaction; else as many as 200 ms allow.",
        show_default=False,
    ),
]


@with_bare_form
@project_options
def backfill(
    to: Target,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUNBOOK/]ID",
            help="The backfill, as its page names it.",
            show_default=False,
            autocompletion=complete.backfill,
        ),
    ] = None,
    dry_run: DryRun = False,
    batch_size: BatchSize = None,
    max_lag: Annotated[
        float | None,
        typer.Option(
            "--max-lag",
            metavar="SECONDS",
            min=0,
            help="Pause while a replica is further behind than this.",
            show_default=False,
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Run an UPDATE of a runbook in batches, each in a transaction of its own.

    Stopped anywhere, it goes on from there when it is started again: the ledger knows how far it was.

    Example: pipestate backfill orders/state --dry-run
    """
    from pipestate.render import backfill as render

    found = named(to, name)
    require_batch_size(batch_size)
    if dry_run:
        show(render.forecast_as_data, render.forecast_as_lines, forecast(to, found, batch_size), json_)
        return
    result = run(to, found, batch_size, max_lag)
    show(render.result_as_data, render.result_as_lines, result, json_)
    raise typer.Exit(result.exit_code)


def named(to: Target, name: str | None) -> "Found":
    """Find the backfill; without a name, say which there are."""
    from pipestate.backfill.find import every_backfill, find_backfill, told
    from pipestate.runbook.find import every_runbook, runbooks_at

    if name is None:
        known = every_backfill(every_runbook(to.project.runbooks))
        example = known[0] if known else "orders/state"
        raise ConfigError(f"name a backfill, as pipestate backfill {example}; {told(known)}")
    return find_backfill(name, runbooks_at(name, to.project.runbooks), to.url.get_backend_name())


def require_batch_size(size: int | None) -> None:
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"--batch-size {size}: give a number of rows from 1 to {LARGEST_BATCH}")


def forecast(to: Target, found: "Found", batch_size: int | None) -> Any:
    """Say what a run would do, on a connection that cannot write."""
    from pipestate import db
    from pipestate.backfill.find import require_phase
    from pipestate.backfill.look import forecast

    with db.reader(to.url) as connection:
        require_phase(found, to.locate(connection))
        return forecast(connection, found, batch_size=batch_size)


def run(to: Target, found: "Found", batch_size: int | None, max_lag: float | None) -> Any:
    """Run it, with a bar on stderr where that is a terminal."""
    from pipestate import db
    from pipestate.backfill.find import require_phase
    from pipestate.backfill.loop import How, run

    with db.reachable(to.url), db.engine_for(to.url).connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        position = to.locate(connection)
        require_phase(found, position)
        with progress(found.address, "rows") as tell:
            how = How(batch_size, max_lag, tell, lambda said: say(f"pipestate: {said}", err=True))
            return run(connection, found, how, revision=position.current)


def show(as_data: Any, as_lines: Any, found: Any, json_: bool) -> None:
    if json_:
        print_json(as_data(found))
        return
    for line in as_lines(found):
        say(line)
