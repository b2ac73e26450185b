"""The command `backfill`: a runbook's UPDATE in batches, or the default backfill of an installed package.

A package offers its default backfill as the entry point `backfill` of the group `pipestate.backfills`. Its options
join the options of the command; it runs if no name is given.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, Target, complete_backfill, project_options, with_options
from pipestate.cli.output import print_answer, progress, say
from pipestate.core.errors import ConfigError, OtherMigrations, PipestateError
from pipestate.core.text import many
from pipestate.project.find import Calls

if TYPE_CHECKING:
    from pipestate.backfill.forecast import Forecast
    from pipestate.backfill.recorded import BackfillResult
    from pipestate.backfill.source import Found


LARGEST_BATCH = 50_000
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", help="Rows in one transaction; else as many as 200 ms allow."),
]


def with_default_backfill(own: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command the options of the default backfill, if a package offers one that loads."""
    default = _offered(own.__name__)
    if default is None:
        return own
    ours, theirs = (inspect.signature(each).parameters for each in (own, default))
    added = {name: parameter for name, parameter in theirs.items() if name not in ours}

    def command(context: typer.Context, **given: Any) -> Any:
        if given["name"] is not None:
            for option in _on_command_line(context, added):
                raise ConfigError(
                    f"{option} works only without a backfill name: leave out {given['name']} or {option}"
                )
            return own(**{name: given[name] for name in ours})
        for option in _on_command_line(context, ours.keys() - theirs.keys() - {"name"}):
            raise ConfigError(f"{option} is for one backfill: name it")
        try:
            return default(**{name: given[name] for name in theirs})
        except OtherMigrations:
            return own(**{name: given[name] for name in ours})  # it lists the backfills

    where = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    with_options(command, own, [where, *ours.values(), *added.values()], {})
    docs = (inspect.cleandoc(each.__doc__ or "") for each in (own, default))
    command.__doc__ = "\n\nWithout a name: ".join(docs)
    return command


def _on_command_line(context: typer.Context, options: Iterable[str]) -> Iterator[str]:
    """Name those of the options that were typed: in this form of the command they would have no effect."""
    for option in options:
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            yield f"--{option.replace('_', '-')}"


def _offered(command: str) -> Callable[..., Any] | None:
    """Load the packages' offer; print the error of a broken one, and leave it out."""
    from pipestate.core import plugins
    from pipestate.project.find import serves_application

    plugin = plugins.find_plugins(plugins.BACKFILLS).get(command)
    if plugin is None or (plugin.is_of_application and not serves_application(sys.argv[1:])):
        return None
    try:
        made: Callable[..., Any] = plugin.load()
    except PipestateError as error:
        say(f"pipestate: {error}", err=True)
        return None
    return made


@with_default_backfill
@project_options
def backfill(
    to: Target,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUNBOOK/]ID",
            help="Name of the backfill in its runbook.",
            autocompletion=complete_backfill,
        ),
    ] = None,
    dry_run: DryRun = False,
    batch_size: BatchSize = None,
    max_lag: Annotated[
        float | None,
        typer.Option(
            "--max-lag", metavar="SECONDS", min=0, help="Pause while a replica is further behind than this."
        ),
    ] = None,
    pause: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Pause the running backfill after its batch, or resume it."),
    ] = None,
    retune: Annotated[
        int | None,
        typer.Option(
            "--retune",
            metavar="N",
            help="Give the running backfill N rows a batch; 0: as many as 200 ms allow.",
        ),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Run an UPDATE or INSERT … SELECT of a runbook in batches, each in a transaction of its own.

    A stopped run continues where it stopped: the ledger keeps its position.

    Example: pipestate backfill orders/state --dry-run
    """
    found = named(to, name)
    require_batch_size(batch_size)
    if pause is not None or retune is not None:
        data, lines = control(to, found, pause, retune)
        print_answer(data, lines, json_=json_)
    elif dry_run:
        expected = forecast(to, found, batch_size)
        print_answer(forecast_as_data(expected), forecast_as_lines(expected, to.calls), json_=json_)
    else:
        result = run(to, found, batch_size, max_lag)
        print_answer(result_as_data(result), result_as_lines(result, to.calls), json_=json_)
        raise typer.Exit(result.exit_code)


def named(to: Target, name: str | None) -> "Found":
    """Find the backfill; without a name, list those available."""
    from pipestate.backfill.source import every_backfill, find_backfill, list_known
    from pipestate.runbook.files import every_runbook, runbooks_at

    if name is None:
        known = every_backfill(every_runbook(to.project.runbooks))
        example = known[0] if known else "orders/state"
        raise ConfigError(f"name a backfill, as pipestate backfill {example}; {list_known(known)}")
    return find_backfill(name, runbooks_at(name, to.project.runbooks), to.url.get_backend_name())


def require_batch_size(size: int | None, *, option: str = "--batch-size") -> None:
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"{option} {size}: give a number of rows from 1 to {LARGEST_BATCH}")


def control(
    to: Target, found: "Found", pause: bool | None, retune: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Order the running backfill to pause, to resume, or to change its batch size; describe its orders."""
    from pipestate.backfill.recorded import order
    from pipestate.database import connections as db

    if retune:
        require_batch_size(retune, option="--retune")
    with db.writer(to.url) as connection:
        orders = order(connection, found, paused=pause, batch_rows=retune)
    size = "as many rows as 200 ms allow" if orders.batch_rows is None else many(orders.batch_rows, "row")
    state = f"paused by {orders.paused_by}" if orders.paused_by else "not paused"
    lines = [
        f"{found.address}: {state}, a batch takes {size}; the running command applies this before its next batch"
    ]
    if orders.paused_by:
        lines.append(f"Next: {to.calls.pipestate(f'backfill {found.address} --resume')}")
    return {"backfill": found.address, **asdict(orders)}, lines


def forecast(to: Target, found: "Found", batch_size: int | None) -> "Forecast":
    """Forecast a run, on a read-only connection."""
    from pipestate.backfill.forecast import forecast
    from pipestate.backfill.source import require_phase
    from pipestate.database import connections as db

    with db.reader(to.url) as connection:
        require_phase(connection, found, to.locate(connection))
        return forecast(connection, found, batch_size=batch_size)


def run(to: Target, found: "Found", batch_size: int | None, max_lag: float | None) -> "BackfillResult":
    """Run the backfill, with a progress bar on stderr if that is a terminal."""
    from pipestate.backfill.recorded import How, run
    from pipestate.backfill.source import require_phase
    from pipestate.database import connections as db

    with db.reachable(to.url), db.engine_for(to.url).connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        position = to.locate(connection)
        require_phase(connection, found, position)
        with progress(found.address, "rows") as tell:
            how = How(batch_size, max_lag, tell, lambda said: say(f"pipestate: {said}", err=True))
            return run(connection, found, how, revision=position.current)


def forecast_as_lines(found: "Forecast", calls: Calls) -> Iterator[str]:
    if found.first_key is None:
        yield f"{found.address}: {found.table} is empty, there is nothing to update"
        return
    yield (
        f"{found.address}: would update {'' if found.counted else 'about '}{many(found.rows_to_update, 'row')} of about "
        f"{found.rows_in_table:,} in {found.table}"
    )
    yield f"{found.key} from {found.first_key} to {found.last_key}, in at least {_batches(found.batches)}"
    if found.resumes_after is not None:
        yield f"continues after {found.key} {found.resumes_after}, where the last run stopped"
    yield f"Next: {calls.pipestate(f'backfill {found.address}')}"


def forecast_as_data(found: "Forecast") -> dict[str, Any]:
    data = asdict(found)
    return {"backfill": data.pop("address"), "dry_run": True, **data}


def result_as_lines(done: "BackfillResult", calls: Calls) -> Iterator[str]:
    if not done.batches and not done.rows_left:
        yield f"{done.address}: nothing to do, no row of {done.table} matches"
        return
    rate = done.rows_updated / done.seconds if done.seconds else 0.0
    yield (
        f"{done.address}: {many(done.rows_updated, 'row')} of {done.table} updated in {_batches(done.batches)}, "
        f"{done.seconds:.1f} s ({rate:,.0f} rows/s)" + ("" if done.rows_left else "; none is left")
    )
    if done.resumed_after is not None:
        yield f"went on behind {done.key} {done.resumed_after}"
    if done.rows_left:
        still = "matches" if done.rows_left == 1 else "match"
        yield (
            f"{many(done.rows_left, 'row')} still {still}: written meanwhile, or not changed by the UPDATE; "
            "run the same again, or fix them"
        )
        yield f"Next: {calls.pipestate(f'backfill {done.address}')}"


def result_as_data(done: "BackfillResult") -> dict[str, Any]:
    names = "table", "key", "rows_updated", "rows_left", "batches"
    return {
        "backfill": done.address,
        "dry_run": False,
        **{name: getattr(done, name) for name in names},
        "duration_ms": round(done.seconds * 1000, 1),
        "resumed_after": done.resumed_after,
    }


def _batches(number: int) -> str:
    return many(number, "batch", "batches")
