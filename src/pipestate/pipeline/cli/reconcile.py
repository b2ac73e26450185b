"""`pipestate reconcile`: recover stuck sites."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_answer, progress, say
from pipestate.core.errors import ConfigError
from pipestate.core.text import many, plain
from pipestate.pipeline.cli import RedisUrl, StorageDir, ThresholdHours, open_queues
from pipestate.pipeline.planning import RECONCILED, Trigger, any_failed, count

if TYPE_CHECKING:
    from pipestate.pipeline.planning import Result
    from pipestate.pipeline.queues.port import Queues
    from pipestate.pipeline.reconcile.decide import Recovery, Rules

    Results = Sequence[Result[Recovery]]

SHOWN = 10
BUSY = "another reconciliation is under way: nothing to do"


@project_options
def reconcile(
    to: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False,
    threshold_hours: ThresholdHours = 2.0,
    site: Annotated[
        str | None,
        typer.Option(
            "--site", metavar="NAME", help="Reconcile only this site, after any number of attempts."
        ),
    ] = None,
    trigger: Annotated[
        Trigger,
        typer.Option(
            "--trigger",
            help="Origin of this run: cron in the schedule; a manual recovery counts as an intervention.",
        ),
    ] = Trigger.MANUAL,
    max_attempts: Annotated[
        int,
        typer.Option(
            "--max-attempts", metavar="N", min=1, help="Attempts at one stage after which a person must help."
        ),
    ] = 5,
    storage_dir: StorageDir = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
) -> None:
    """Recover stuck sites: claim and enqueue the coordinator, or enqueue the jobs that are missing.

    Example: pipestate reconcile --dry-run
    """
    from pipestate.pipeline.reconcile.decide import Rules
    from pipestate.pipeline.stages import require_threshold
    from pipestate.pipeline.storage import open_storage

    if site is not None and trigger is Trigger.CRON:
        raise ConfigError("--site works only for a manual run: leave out --trigger cron")
    require_threshold(threshold_hours)
    storage = open_storage(storage_dir) if storage_dir else None
    with open_queues(to.project, redis_url) as (queues, names):
        rules = Rules(names, storage, threshold_hours, max_attempts, site)
        results = recovered(to, queues, rules, trigger, dry_run=dry_run)
    if results is None:
        say(BUSY, err=True)
    data, lines = as_data(results, trigger, dry_run=dry_run), as_lines(results, site, dry_run=dry_run)
    print_answer(data, lines, json_=json_)
    raise typer.Exit(any_failed(results or []))


def recovered(
    to: Target, queues: "Queues", rules: "Rules", trigger: Trigger, *, dry_run: bool
) -> "Results | None":
    """Recover the sites, or return the plan in a dry run; None if another run is active."""
    from pipestate.pipeline.reconcile import plan, run

    if dry_run:
        return plan(to.url, queues, rules).expected
    with progress("recovering", "sites") as bar:
        with to.connect() as (_, position):
            revision = position.current
        return run(to.url, queues, rules, trigger=trigger, revision=revision, on_progress=bar)


def as_lines(results: "Results | None", named: str | None, *, dry_run: bool) -> Iterator[str]:
    """Render the findings, the actual or planned action for each site, and the totals.

    Sites that need attention come first, then some of the others.
    """
    if results is None:  # busy: there are no results
        return
    if not results:
        yield f"{named} is not stuck" if named else "No stuck sites"
        return
    counts = count(results, *RECONCILED)
    rest = "".join(f", {counts[word]} {word}" for word in ("skipped", "failed") if counts[word])
    yield f"Found {many(len(results), 'stuck site')}\n"
    smooth = [result for result in results if result.outcome.done]
    for result in [result for result in results if not result.outcome.done] + smooth[:SHOWN]:
        site = result.subject.site
        yield plain(f"  {site.subdomain} ({site.stage}): {_line(result)}")
    if len(smooth) > SHOWN:
        yield f"  and {len(smooth) - SHOWN} more: --json shows them"
    yield f"\n{'Would recover' if dry_run else 'Recovered'} {many(counts['recovered'], 'site')}{rest}"
    if dry_run and counts["recovered"]:
        yield "Next: run the same without --dry-run"


def _line(result: "Result[Recovery]") -> str:
    if not result.outcome.done:
        return f"{result.outcome}: {result.reason}"
    jobs = many(len(result.subject.calls), "job")
    what = "coordinator" if result.subject.action == "coordinator" else f"{jobs} again"
    return f"{result.reason} → {what}"


def as_data(results: "Results | None", trigger: Trigger, *, dry_run: bool) -> dict[str, Any]:
    """Render the results as data; `busy` means that another run was active and this one did nothing."""
    return {
        "busy": results is None,
        "dry_run": dry_run,
        "trigger": trigger.value,
        "found": len(results or ()),
        **count(results or (), *RECONCILED),
        "sites": [
            {
                "subdomain": recovery.site.subdomain,
                "stage": recovery.site.stage,
                "hours": None if recovery.site.hours is None else round(recovery.site.hours, 1),
                "action": str(recovery.action),
                "result": str(outcome),
                "reason": reason,
            }
            for recovery, outcome, reason in results or ()
        ],
    }
