"""`pipestate reconcile`: bring stuck sites back to life."""

from typing import Annotated

import typer

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_json, say
from pipestate.cli.progress import progress
from pipestate.pipeline.cli.options import RedisUrl, StorageDir, ThresholdHours, require_ours, require_redis


@project_options
def reconcile(
    to: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False,
    threshold_hours: ThresholdHours = 2.0,
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="S", help="Only this one; on record as a manual intervention."),
    ] = None,
    max_attempts: Annotated[
        int, typer.Option("--max-attempts", min=1, help="After so many at one stage a person is asked.")
    ] = 5,
    storage_dir: StorageDir = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
) -> None:
    """Recover stuck sites: claim and enqueue the coordinator, or enqueue the jobs that are missing.

    Example: pipestate reconcile --dry-run
    """
    from pipestate.pipeline.queues import connected
    from pipestate.pipeline.reconcile import Reconciler
    from pipestate.pipeline.render.reconciliation import as_data, as_lines, counts_of
    from pipestate.pipeline.storage import open_storage
    from pipestate.pipeline.stuck import require_threshold
    from pipestate.pipeline.wiring import read_wiring

    require_threshold(threshold_hours)
    wiring = read_wiring(require_ours(to.project))
    storage = open_storage(storage_dir) if storage_dir else None
    with connected(require_redis(redis_url, wiring)) as redis:
        work = Reconciler(to.url, redis, wiring, storage, threshold_hours, max_attempts, site)
        revision = to.position().current
        with progress("recovering", "sites") as recovering:
            outcomes = work.preview() if dry_run else work.run(revision=revision, on_progress=recovering)
    busy = outcomes is None
    done = outcomes or []
    if json_:
        print_json(as_data(done, site, dry_run=dry_run, busy=busy))
    elif busy:
        say("another reconciliation is under way: nothing to do", err=True)
    else:
        for line in as_lines(done, site, dry_run=dry_run):
            say(line)
    if counts_of(done)["failed"]:
        raise typer.Exit(1)
