"""`pipestate backfill` without a name: what stood still in OCR gets counters from the storage directory."""

import gc
from functools import partial

import typer

from pipestate.cli.backfill import BatchSize, DryRun
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.progress import progress
from pipestate.pipeline.cli.options import StorageDir, ThresholdHours, require_ours
from pipestate.pipeline.cli.output import show


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
    from pipestate.pipeline import backfill as library
    from pipestate.pipeline.planning import any_failed
    from pipestate.pipeline.render.backfill import as_data, as_lines
    from pipestate.pipeline.storage import open_storage
    from pipestate.pipeline.threshold import require_threshold

    require_ours(to.project)
    threshold = require_threshold(threshold_hours)
    library.require_batch_size(batch_size)
    storage = open_storage(storage_dir)
    gc.disable()  # a plan may have a million small values, and each of them outlives the collector
    with progress("counting", "sites") as counting:
        plan = library.plan(to.url, storage, threshold=threshold, on_progress=counting)
    results = plan.expected
    if not dry_run:
        with progress("writing", "sites") as writing:
            results = library.apply(to.url, plan, batch_size=batch_size, on_progress=writing)
    data = partial(as_data, results, dry_run=dry_run, root=storage.root, hours=threshold_hours)
    show(json_, data, as_lines(results, dry_run=dry_run))
    raise typer.Exit(any_failed(results))
