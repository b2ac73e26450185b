"""`queues show` and `queues clear`: queue depths, and removal of dead jobs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import AsJson, project_options
from pipestate.cli.output import console, print_answer, print_json, progress, say
from pipestate.pipeline.cli import RedisUrl, open_queues
from pipestate.project.find import Project

if TYPE_CHECKING:
    from pipestate.pipeline.planning import Plan, Result
    from pipestate.pipeline.queues.port import Blocked, Queues

app = typer.Typer(help="Look at the job queues, and clear what can never end.", no_args_is_help=True)


@app.command()
@project_options
def show(project: Project, redis_url: RedisUrl = None, json_: AsJson = False) -> None:
    """Show how full the queues are, and what stands in the way.

    Example: pipestate queues show
    """
    from pipestate.pipeline.cli.queue_formats import depths_as_data, print_depths
    from pipestate.pipeline.queues.depths import read_depths

    with open_queues(project, redis_url) as (queues, settings):
        states = read_depths(queues, settings)
    if json_:
        print_json(depths_as_data(states))
    else:
        print_depths(states, console())


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
    from pipestate.pipeline.cli.queue_formats import cleared_as_data, cleared_as_lines, left_alone
    from pipestate.pipeline.queues.clear import default_file, plan

    file = export or default_file(datetime.now(UTC))
    with open_queues(project, redis_url) as (queues, settings):
        found = plan(queues, settings.obstacles())
        writes = bool(found.to_do) and not dry_run
        results = cleared(queues, found, file) if writes else found.expected
    for line in left_alone(results):
        say(line, err=True)
    data = cleared_as_data(results, dry_run=dry_run, export=file if writes else None)
    print_answer(data, cleared_as_lines(results, dry_run=dry_run), json_=json_)


def cleared(queues: "Queues", plan: "Plan[Blocked]", file: Path) -> "list[Result[Blocked]]":
    """Export the jobs into the file, and delete them."""
    from pipestate.pipeline.queues.clear import apply

    def say_exported(number: int) -> None:
        say(f"{number:,} exported to {file}", err=True)

    with progress("clearing", "jobs") as bar:
        return apply(queues, plan, file, on_exported=say_exported, on_progress=bar)
