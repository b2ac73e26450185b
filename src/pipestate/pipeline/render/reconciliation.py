"""A reconciliation in lines and in JSON."""

from collections.abc import Sequence
from typing import Any

from pipestate.pipeline.reconcile import Outcome, Result
from pipestate.pipeline.reconcile.decide import Action
from pipestate.plural import many
from pipestate.render.text import clean

SHOWN = 10


def as_lines(outcomes: Sequence[Outcome], named: str | None, *, dry_run: bool) -> list[str]:
    """What was found, what was (or would be) done about each site, and how many."""
    if not outcomes:
        return [f"{named} is not stuck" if named else "No stuck sites"]
    counts = counts_of(outcomes)
    verb = "Would recover" if dry_run else "Recovered"
    rest = "".join(f", {counts[result]} {result}" for result in ("skipped", "failed") if counts[result])
    return [
        f"Found {many(len(outcomes), 'stuck site')}\n",
        *_lines(outcomes),
        f"\n{verb} {many(counts['recovered'], 'site')}{rest}",
    ]


def _lines(outcomes: Sequence[Outcome]) -> list[str]:
    """What needs a look comes first and whole; of what went well, some."""
    smooth = [outcome for outcome in outcomes if outcome.result is Result.RECOVERED]
    shown = [outcome for outcome in outcomes if outcome.result is not Result.RECOVERED] + smooth[:SHOWN]
    lines = [
        clean(f"  {outcome.step.site.subdomain} ({outcome.step.site.stage}): {_did(outcome)}")
        for outcome in shown
    ]
    more = len(smooth) - SHOWN
    return lines if more <= 0 else [*lines, f"  and {more} more: --json shows them"]


def as_data(
    outcomes: Sequence[Outcome], named: str | None, *, dry_run: bool, busy: bool = False
) -> dict[str, Any]:
    """`busy`: another reconciliation was under way, so that this one did nothing."""
    return {
        "busy": busy,
        "dry_run": dry_run,
        "trigger": "manual" if named else "cron",
        "found": len(outcomes),
        **counts_of(outcomes),
        "sites": [_data(outcome) for outcome in outcomes],
    }


def counts_of(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {str(result): sum(outcome.result is result for outcome in outcomes) for result in Result}


def _did(outcome: Outcome) -> str:
    if outcome.result is not Result.RECOVERED:
        return f"{outcome.result}: {outcome.reason}"
    jobs = many(len(outcome.step.parcels), "job")
    what = "coordinator" if outcome.step.action is Action.COORDINATOR else f"{jobs} again"
    return f"{outcome.reason} → {what}"


def _data(outcome: Outcome) -> dict[str, Any]:
    site = outcome.step.site
    return {
        "subdomain": site.subdomain,
        "stage": site.stage,
        "hours": None if site.hours is None else round(site.hours, 1),
        "action": str(outcome.step.action),
        "result": str(outcome.result),
        "reason": outcome.reason,
    }
