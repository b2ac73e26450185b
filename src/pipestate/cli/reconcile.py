"""`pipestate reconcile`: bring stuck sites back to life."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, Config, DatabaseUrl, RedisUrl, StorageDir, require_redis, target
from pipestate.cli.output import print_json

if TYPE_CHECKING:
    from pipestate.pipeline.reconcile import Outcome, Reconciler


def reconcile(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")] = False,
    threshold_hours: Annotated[
        float, typer.Option("--threshold-hours", help="Untouched for that long is stuck.")
    ] = 2.0,
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
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Recover stuck sites: claim and enqueue the coordinator, or enqueue the jobs that are missing.

    Example: pipestate reconcile --dry-run
    """
    from pipestate.pipeline.queues import connected
    from pipestate.pipeline.reconcile import Reconciler
    from pipestate.pipeline.storage import open_storage
    from pipestate.pipeline.stuck import require_threshold
    from pipestate.pipeline.wiring import read_wiring

    require_threshold(threshold_hours)
    to = target(database_url, config)
    wiring = read_wiring(to.ini)
    storage = open_storage(storage_dir) if storage_dir else None
    with connected(require_redis(redis_url, wiring)) as redis:
        work = Reconciler(to.url, redis, wiring, storage, threshold_hours, max_attempts, site)
        outcomes = _planned(work) if dry_run else work.run(revision=to.revisions().current, on_done=_ignore)
    if outcomes is None:
        typer.echo("another reconciliation is under way: nothing to do", err=True)
        return
    _show(outcomes, site, dry_run=dry_run, json_=json_)
    if any(str(outcome.result) == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _planned(work: "Reconciler") -> "list[Outcome]":
    from pipestate.pipeline.reconcile import Outcome, Result

    return [
        Outcome(step, Result.RECOVERED if step.recovers else Result.SKIPPED, step.reason)
        for step in work.plan()
    ]


def _ignore(outcome: "Outcome") -> None:
    del outcome


def _show(outcomes: "list[Outcome]", site: str | None, *, dry_run: bool, json_: bool) -> None:
    counts = {
        result: sum(outcome.result == result for outcome in outcomes)
        for result in ("recovered", "skipped", "failed")
    }
    if json_:
        sites = [_data(outcome) for outcome in outcomes]
        trigger = "manual" if site else "cron"
        print_json({"dry_run": dry_run, "trigger": trigger, "found": len(outcomes), **counts, "sites": sites})
        return
    if not outcomes:
        typer.echo(f"{site} is not stuck" if site else "No stuck sites")
        return
    typer.echo(f"Found {_sites(len(outcomes), 'stuck ')}\n")
    for outcome in outcomes:
        typer.echo(f"  {outcome.step.site.subdomain} ({outcome.step.site.stage}): {_did(outcome)}")
    verb = "Would recover" if dry_run else "Recovered"
    rest = "".join(f", {counts[result]} {result}" for result in ("skipped", "failed") if counts[result])
    typer.echo(f"\n{verb} {_sites(counts['recovered'])}{rest}")


def _did(outcome: "Outcome") -> str:
    if outcome.result == "recovered":
        return f"{outcome.reason}" if outcome.step.action == "jobs" else f"{outcome.reason}: enqueued"
    return f"{outcome.result}: {outcome.reason}"


def _sites(count: int, kind: str = "") -> str:
    return f"{count} {kind}site{'' if count == 1 else 's'}"


def _data(outcome: "Outcome") -> dict[str, Any]:
    site = outcome.step.site
    return {
        "subdomain": site.subdomain,
        "stage": site.stage,
        "hours": None if site.hours is None else round(site.hours, 1),
        "action": str(outcome.step.action),
        "result": str(outcome.result),
        "reason": outcome.reason,
    }
