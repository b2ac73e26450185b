"""`pipestate reconcile`: recover stuck sites."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import progress, say
from pipestate.pipeline.cli.options import RedisUrl, StorageDir, ThresholdHours, open_queues, show

if TYPE_CHECKING:
    from pipestate.pipeline.planning import Result
    from pipestate.pipeline.queues.port import Queues
    from pipestate.pipeline.reconcile import Rules
    from pipestate.pipeline.reconcile.decide import Recovery


@project_options
def reconcile(
    to: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False,
    threshold_hours: ThresholdHours = 2.0,
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="NAME", help="Only this one; on record as a manual intervention."),
    ] = None,
    max_attempts: Annotated[
        int,
        typer.Option(
            "--max-attempts", metavar="N", min=1, help="After so many at one stage it is left to a person."
        ),
    ] = 5,
    storage_dir: StorageDir = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
) -> None:
    """Recover stuck sites: claim and enqueue the coordinator, or enqueue the jobs that are missing.

    Example: pipestate reconcile --dry-run
    """
    from pipestate.pipeline.cli.formats.reconcile import BUSY, as_data, as_lines
    from pipestate.pipeline.planning import any_failed
    from pipestate.pipeline.reconcile import Rules
    from pipestate.pipeline.stages import require_threshold
    from pipestate.pipeline.storage import open_storage

    require_threshold(threshold_hours)
    storage = open_storage(storage_dir) if storage_dir else None
    with open_queues(to.project, redis_url) as (queues, names):
        rules = Rules(names, storage, threshold_hours, max_attempts, site)
        results = recovered(to, queues, rules, dry_run=dry_run)
    if results is None:
        say(BUSY, err=True)
    show(json_, partial(as_data, results, site, dry_run=dry_run), as_lines(results, site, dry_run=dry_run))
    raise typer.Exit(any_failed(results or []))


def recovered(
    to: Target, queues: "Queues", rules: "Rules", *, dry_run: bool
) -> "Sequence[Result[Recovery]] | None":
    """Recover the sites, or return the plan in a dry run; None if another run is active."""
    from pipestate.pipeline.reconcile import plan, run

    if dry_run:
        return plan(to.url, queues, rules).expected
    with progress("recovering", "sites") as bar:
        return run(to.url, queues, rules, revision=to.position().current, on_progress=bar)
