"""`pipestate backfill` without a name: sites stalled in OCR get counters from the storage directory."""

import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from pipestate.cli.backfill import BatchSize, DryRun
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_answer, progress, say
from pipestate.core.text import many, plain
from pipestate.pipeline.cli import StorageDir, ThresholdHours, require_ours
from pipestate.pipeline.planning import SubjectOutcome, any_failed, count

if TYPE_CHECKING:
    from datetime import timedelta

    from pipestate.pipeline.backfill.stale_rows import SiteCounts
    from pipestate.pipeline.planning import Result
    from pipestate.pipeline.storage import Storage

    Results = Sequence[Result[SiteCounts]]

LINES = 10
OUTCOMES = (
    SubjectOutcome.MIGRATED,
    SubjectOutcome.EMPTY,
    SubjectOutcome.MOVED_ON,
    SubjectOutcome.ORPHANED,
    SubjectOutcome.FAILED,
)


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
    from pipestate.pipeline.stages import require_threshold
    from pipestate.pipeline.storage import open_storage

    require_ours(to.project)
    threshold = require_threshold(threshold_hours)
    require_batch_size(batch_size)
    storage = open_storage(storage_dir)
    results = filled(to, storage, threshold, batch_size, dry_run=dry_run)
    data = as_data(results, dry_run=dry_run, root=storage.root, hours=threshold_hours) if json_ else None
    print_answer(data, as_lines(results, dry_run=dry_run), json_=json_)
    raise typer.Exit(any_failed(results))


def filled(
    to: Target, storage: "Storage", threshold: "timedelta", batch_size: int | None, *, dry_run: bool
) -> "Results":
    """Write the counters of the sites, or return the plan in a dry run."""
    from pipestate.pipeline import backfill as library

    gc.disable()  # a plan may have a million small values, and all of them stay alive
    with progress("counting", "sites") as counting:
        plan = library.plan(to.url, storage, threshold=threshold, on_progress=counting)
    if dry_run:
        return plan.expected
    with progress("writing", "sites") as writing:
        return library.apply(
            to.url,
            plan,
            batch_size=batch_size,
            on_progress=writing,
            on_wait=lambda said: say(f"pipestate: {said}", err=True),
        )


def as_lines(results: "Results", *, dry_run: bool) -> Iterator[str]:
    """Render the summary, then failed sites, then the others; sites that had moved on are only counted."""
    written = many(sum(result.outcome.done for result in results), "site")
    yield f"{'Would migrate' if dry_run else 'Migrated'} {written}"
    counts = [f"{word}: {number:,}" for word, number in count(results, *OUTCOMES).items() if number]
    yield from (", ".join(counts),) if counts else ()
    shown = [result for result in results if result.outcome is not SubjectOutcome.MOVED_ON]
    shown.sort(key=lambda result: result.outcome is not SubjectOutcome.FAILED)
    yield from (plain(f"  {_line(result)}") for result in shown[:LINES])
    if len(shown) > LINES:
        yield f"  and {len(shown) - LINES:,} more: --json shows them"
    if dry_run and shown:
        yield "Next: run the same without --dry-run"


def _line(result: "Result[SiteCounts]") -> str:
    site, outcome, reason = result
    if outcome is SubjectOutcome.MIGRATED:
        return f"{site.subdomain}: {site.completed}/{site.total} completed, {site.failed} failed"
    return f"{site.subdomain}: {outcome}" + (f" ({reason})" if reason else "")


def as_data(results: "Results", *, dry_run: bool, root: object, hours: float) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "storage_dir": str(root),
        "threshold_hours": hours,
        "summary": count(results, *OUTCOMES),
        "sites": [
            {
                "subdomain": site.subdomain,
                "outcome": str(outcome),
                "completed": site.completed,
                "failed": site.failed,
                "total": site.total,
                "reason": reason,
            }
            for site, outcome, reason in results
        ],
    }
