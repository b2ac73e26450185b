"""`pipestate backfill` without a name: sites stalled in OCR get counters from the storage directory."""

import gc
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from pipestate.cli.backfill import BatchSize, DryRun
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import progress
from pipestate.pipeline.cli.options import StorageDir, ThresholdHours, require_ours, show

if TYPE_CHECKING:
    from datetime import timedelta

    from pipestate.pipeline.backfill.stale_rows import SiteCounts
    from pipestate.pipeline.planning import Result
    from pipestate.pipeline.storage import Storage


@project_options
def backfill(
    to: Target,
    dry_run: DryRun = False,
    storage_dir: StorageDir = None,
    threshold_hours: ThresholdHours = 2.0,
    batch_size: BatchSize = None,
    json_: AsJson = False,
) -> None:
    """Give sites that stand still in OCR counters from the documents that are there, where they still need it.

    Example: pipestate backfill --dry-run --storage-dir /srv/sites
    """
    from pipestate.pipeline.backfill import require_batch_size
    from pipestate.pipeline.cli.formats.backfill import as_data, as_lines
    from pipestate.pipeline.planning import any_failed
    from pipestate.pipeline.stages import require_threshold
    from pipestate.pipeline.storage import open_storage

    require_ours(to.project)
    threshold = require_threshold(threshold_hours)
    require_batch_size(batch_size)
    storage = open_storage(storage_dir)
    results = filled(to, storage, threshold, batch_size, dry_run=dry_run)
    data = partial(as_data, results, dry_run=dry_run, root=storage.root, hours=threshold_hours)
    show(json_, data, as_lines(results, dry_run=dry_run))
    raise typer.Exit(any_failed(results))


def filled(
    to: Target, storage: "Storage", threshold: "timedelta", batch_size: int | None, *, dry_run: bool
) -> "Sequence[Result[SiteCounts]]":
    """Write the counters of the sites, or return the plan in a dry run."""
    from pipestate.pipeline import backfill as library

    gc.disable()  # a plan may have a million small values, and all of them stay alive
    with progress("counting", "sites") as counting:
        plan = library.plan(to.url, storage, threshold=threshold, on_progress=counting)
    if dry_run:
        return plan.expected
    with progress("writing", "sites") as writing:
        return library.apply(to.url, plan, batch_size=batch_size, on_progress=writing)
