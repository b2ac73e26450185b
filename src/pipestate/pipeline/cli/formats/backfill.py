"""Backfill results as text lines and JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipestate.core.text import many, plain
from pipestate.pipeline.backfill import OUTCOMES
from pipestate.pipeline.backfill.stale_rows import SiteCounts
from pipestate.pipeline.planning import Result, SubjectOutcome, count

LINES = 10

Results = Sequence[Result[SiteCounts]]


def as_lines(results: Results, *, dry_run: bool) -> Iterator[str]:
    """Render the summary, then failed sites, then the others; sites that had moved on are only counted."""
    written = many(sum(result.outcome.done for result in results), "site")
    yield f"{'Would migrate' if dry_run else 'Migrated'} {written}"
    counts = [f"{word}: {number:,}" for word, number in count(results, *OUTCOMES).items() if number]
    yield from (", ".join(counts),) if counts else ()
    told = [result for result in results if result.outcome is not SubjectOutcome.MOVED_ON]
    told.sort(key=lambda result: result.outcome is not SubjectOutcome.FAILED)
    yield from (plain(f"  {_line(result)}") for result in told[:LINES])
    if len(told) > LINES:
        yield f"  and {len(told) - LINES:,} more: --json shows them"
    if dry_run and told:
        yield "Next: run the same without --dry-run"


def as_data(results: Results, *, dry_run: bool, root: Path, hours: float) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "storage_dir": str(root),
        "threshold_hours": hours,
        "summary": count(results, *OUTCOMES),
        "sites": [_data(result) for result in results],
    }


def _line(result: Result[SiteCounts]) -> str:
    site, outcome, reason = result
    if outcome is SubjectOutcome.MIGRATED:
        return f"{site.subdomain}: {site.completed}/{site.total} completed, {site.failed} failed"
    return f"{site.subdomain}: {outcome}" + (f" ({reason})" if reason else "")


def _data(result: Result[SiteCounts]) -> dict[str, Any]:
    site, outcome, reason = result
    return {
        "subdomain": site.subdomain,
        "outcome": str(outcome),
        "completed": site.completed,
        "failed": site.failed,
        "total": site.total,
        "reason": reason,
    }
