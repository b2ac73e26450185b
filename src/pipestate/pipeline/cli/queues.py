"""`queues show` and `queues clear`: what RQ holds, and what can never end."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.chain.project import Project
from pipestate.cli.options import AsJson, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.cli.progress import progress
from pipestate.pipeline.cli.options import RedisUrl, require_ours, require_redis

if TYPE_CHECKING:
    from pipestate.pipeline.clearing import Cleared

app = typer.Typer(help="Look at the job queues, and clear what can never end.", no_args_is_help=True)


@app.command()
@project_options
def show(project: Project, redis_url: RedisUrl = None, json_: AsJson = False) -> None:
    """How full the queues are, and what stands in the way.

    Example: pipestate queues show
    """
    from pipestate.pipeline.depths import depths
    from pipestate.pipeline.queues import connected
    from pipestate.pipeline.render.queues import depths_as_data, print_depths
    from pipestate.pipeline.wiring import read_wiring

    wiring = read_wiring(require_ours(project))
    with connected(require_redis(redis_url, wiring)) as redis:
        found = depths(redis, wiring)
    if json_:
        print_json(depths_as_data(found))
    else:
        print_depths(found, console())


@app.command()
@project_options
def clear(
    project: Project,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE",
            help="Where the jobs are kept, as JSON lines; else pipestate-cleared-<time>.jsonl here.",
            show_default=False,
        ),
    ] = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
) -> None:
    """Delete deferred coordinators and failed OCR jobs, after writing them into a file. Other jobs stay.

    Example: pipestate queues clear --export cleared_jobs.jsonl
    """
    from pipestate.pipeline import clearing
    from pipestate.pipeline.export import default_file
    from pipestate.pipeline.export import export as write_export
    from pipestate.pipeline.queues import connected
    from pipestate.pipeline.wiring import read_wiring

    file = export or default_file(datetime.now(UTC))
    wiring = read_wiring(require_ours(project))
    with connected(require_redis(redis_url, wiring)) as redis:
        plan = clearing.plan_clearing(redis, wiring)
        if dry_run or not plan:
            _say(clearing.Cleared(clearing.figures(plan)), None, json_=json_, dry_run=dry_run)
            return
        with progress("exporting", "jobs") as exporting:
            exported = write_export(redis, plan, file, exporting)
        say(f"{len(exported.jobs):,} exported to {file}", err=True)
        with progress("deleting", "jobs") as deleting:
            cleared = clearing.clear(redis, exported, deleting)
    _say(cleared, file, json_=json_)


def _say(cleared: "Cleared", file: Path | None, *, json_: bool, dry_run: bool = False) -> None:
    from pipestate.pipeline.render.queues import cleared_as_data, left_over, sentence

    for line in left_over(cleared):
        say(line, err=True)
    if json_:
        print_json(cleared_as_data(cleared, dry_run=dry_run, export=str(file) if file else None))
    elif file is None and not cleared.deleted:
        say("nothing to clear")
    else:
        say(f"{'Would delete' if dry_run else 'Deleted'} {sentence(cleared.deleted)}")
