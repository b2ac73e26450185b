"""Reconciliation results as text lines and JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from pipestate.core.text import many, plain
from pipestate.pipeline.planning import Result, count
from pipestate.pipeline.reconcile import OUTCOMES
from pipestate.pipeline.reconcile.decide import Action, Recovery

SHOWN = 10
BUSY = "another reconciliation is under way: nothing to do"

Results = Sequence[Result[Recovery]]


def as_lines(results: Results | None, named: str | None, *, dry_run: bool) -> Iterator[str]:
    """Render the findings, the actual or planned action for each site, and the totals."""
    if results is None:  # busy: there are no results
        return
    if not results:
        yield f"{named} is not stuck" if named else "No stuck sites"
        return
    counts = count(results, *OUTCOMES)
    rest = "".join(f", {counts[word]} {word}" for word in ("skipped", "failed") if counts[word])
    yield f"Found {many(len(results), 'stuck site')}\n"
    yield from _lines(results)
    yield f"\n{'Would recover' if dry_run else 'Recovered'} {many(counts['recovered'], 'site')}{rest}"
    if dry_run and counts["recovered"]:
        yield "Next: run the same without --dry-run"


def _lines(results: Results) -> Iterator[str]:
    """Render all sites that need attention first, then some of the successful ones."""
    smooth = [result for result in results if result.outcome.done]
    for result in [result for result in results if not result.outcome.done] + smooth[:SHOWN]:
        site = result.subject.site
        yield plain(f"  {site.subdomain} ({site.stage}): {_told(result)}")
    if len(smooth) > SHOWN:
        yield f"  and {len(smooth) - SHOWN} more: --json shows them"


def _told(result: Result[Recovery]) -> str:
    if not result.outcome.done:
        return f"{result.outcome}: {result.reason}"
    jobs = many(len(result.subject.calls), "job")
    what = "coordinator" if result.subject.action is Action.COORDINATOR else f"{jobs} again"
    return f"{result.reason} → {what}"


def as_data(results: Results | None, named: str | None, *, dry_run: bool) -> dict[str, Any]:
    """Render the results as data; `busy` means that another run was active and this one did nothing."""
    return {
        "busy": results is None,
        "dry_run": dry_run,
        "trigger": "manual" if named else "cron",
        "found": len(results or ()),
        **count(results or (), *OUTCOMES),
        "sites": [_data(result) for result in results or ()],
    }


def _data(result: Result[Recovery]) -> dict[str, Any]:
    site = result.subject.site
    return {
        "subdomain": site.subdomain,
        "stage": site.stage,
        "hours": None if site.hours is None else round(site.hours, 1),
        "action": str(result.subject.action),
        "result": str(result.outcome),
        "reason": result.reason,
    }
