"""The command `backfill`: a runbook's UPDATE in batches, or the default backfill of an installed package.

A package offers its default backfill as the entry point `backfill` of the group `pipestate.backfills`. Its options
join the options of the command; it runs if no name is given.
"""

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli import complete
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_json, say
from pipestate.cli.progress import progress
from pipestate.core.errors import ConfigError, OtherChain, PipestateError

if TYPE_CHECKING:
    from pipestate.backfill.source import Found

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


def with_default_backfill(own: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options of the default backfill, if a package offers one that loads."""
    bare = _offered(own.__name__)
    if bare is None:
        return own
    ours, theirs = (inspect.signature(each).parameters for each in (own, bare))
    added = {name: parameter for name, parameter in theirs.items() if name not in ours}

    def command(context: typer.Context, **given: Any) -> Any:
        if given["name"] is not None:
            _refuse_added(context, added, given["name"])
            return own(**{name: given[name] for name in ours})
        _refuse_without_name(context, (name for name in ours if name not in theirs and name != "name"))
        try:
            return bare(**{name: given[name] for name in theirs})
        except OtherChain:
            return own(**{name: given[name] for name in ours})  # it lists the backfills

    command.__name__, command.__module__ = own.__name__, own.__module__
    command.__doc__ = (
        f"{inspect.cleandoc(own.__doc__ or '')}\n\nWithout a name: {inspect.cleandoc(bare.__doc__ or '')}"
    )
    where = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [where, *ours.values(), *added.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _offered(command: str) -> Callable[..., Any] | None:
    """Load the packages' offer; print the error of a broken one, and leave it out."""
    from pipestate.core import plugins
    from pipestate.project.find import serves_application

    plugin = plugins.backfills().get(command)
    if plugin is None or (plugin.is_of_application and not serves_application(sys.argv[1:])):
        return None
    try:
        made: Callable[..., Any] = plugin.load()
    except PipestateError as error:
        say(f"pipestate: {error}", err=True)
        return None
    return made


def _refuse_without_name(context: typer.Context, own: Iterable[str]) -> None:
    """Refuse options of a named backfill if the name is missing: the default backfill would ignore them."""
    for option in own:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"--{option.replace('_', '-')} is for one backfill: name it")


def _refuse_added(context: typer.Context, added: Iterable[str], name: str) -> None:
    """Refuse options of the default backfill beside a name: they would have no effect."""
    for option in added:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(
                f"--{option.replace('_', '-')} goes with the bare form, without {name}: take it out"
            )


@with_default_backfill
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
    pause: Annotated[
        bool | None,
        typer.Option(
            "--pause/--resume",
            help="Pause the run that is at work, after its batch; or let it go on.",
            show_default=False,
        ),
    ] = None,
    retune: Annotated[
        int | None,
        typer.Option(
            "--retune",
            metavar="N",
            help="Let the run at work take N rows a batch; 0: as many as 200 ms allow.",
            show_default=False,
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Run an UPDATE or INSERT … SELECT of a runbook in batches, each in a transaction of its own.

    Stopped anywhere, it goes on from there when it is started again: the ledger knows how far it was.

    Example: pipestate backfill orders/state --dry-run
    """
    from pipestate.cli.formats import backfill as render

    found = named(to, name)
    require_batch_size(batch_size)
    if pause is not None or retune is not None:
        control(to, found, pause, retune, json_=json_)
        return
    if dry_run:
        expected = forecast(to, found, batch_size)
        show(render.forecast_as_data, render.forecast_as_lines, expected, to.calls, json_=json_)
        return
    result = run(to, found, batch_size, max_lag)
    show(render.result_as_data, render.result_as_lines, result, to.calls, json_=json_)
    raise typer.Exit(result.exit_code)


def named(to: Target, name: str | None) -> "Found":
    """Find the backfill; without a name, list those available."""
    from pipestate.backfill.source import every_backfill, find_backfill, told
    from pipestate.runbook.files import every_runbook, runbooks_at

    if name is None:
        known = every_backfill(every_runbook(to.project.runbooks))
        example = known[0] if known else "orders/state"
        raise ConfigError(f"name a backfill, as pipestate backfill {example}; {told(known)}")
    return find_backfill(name, runbooks_at(name, to.project.runbooks), to.url.get_backend_name())


def control(to: Target, found: "Found", pause: bool | None, retune: int | None, *, json_: bool) -> None:
    """Order the running backfill to pause, to resume, or to change its batch size."""
    from pipestate.backfill.session import order
    from pipestate.cli.formats import backfill as render
    from pipestate.database import connections as db

    if retune:
        require_batch_size(retune, option="--retune")
    with db.writer(to.url) as connection:
        orders = order(connection, found, paused=pause, batch_rows=retune)
    data, lines = (
        partial(render.orders_as_data, found.address),
        partial(render.orders_as_lines, found.address),
    )
    show(data, lines, orders, to.calls, json_=json_)


def require_batch_size(size: int | None, *, option: str = "--batch-size") -> None:
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"{option} {size}: give a number of rows from 1 to {LARGEST_BATCH}")


def forecast(to: Target, found: "Found", batch_size: int | None) -> Any:
    """Forecast a run, on a read-only connection."""
    from pipestate.backfill.forecast import forecast
    from pipestate.backfill.source import require_phase
    from pipestate.database import connections as db

    with db.reader(to.url) as connection:
        require_phase(found, to.locate(connection))
        return forecast(connection, found, batch_size=batch_size)


def run(to: Target, found: "Found", batch_size: int | None, max_lag: float | None) -> Any:
    """Run the backfill, with a progress bar on stderr if that is a terminal."""
    from pipestate.backfill.loop import How, run
    from pipestate.backfill.source import require_phase
    from pipestate.database import connections as db

    with db.reachable(to.url), db.engine_for(to.url).connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        position = to.locate(connection)
        require_phase(found, position)
        with progress(found.address, "rows") as tell:
            how = How(batch_size, max_lag, tell, lambda said: say(f"pipestate: {said}", err=True))
            return run(connection, found, how, revision=position.current)


def show(as_data: Any, as_lines: Any, found: Any, calls: Any, *, json_: bool) -> None:
    if json_:
        print_json(as_data(found))
        return
    for line in as_lines(found, calls):
        say(line)
