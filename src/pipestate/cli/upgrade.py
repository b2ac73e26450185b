"""The commands `upgrade`, `downgrade` and `ready`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_json, say

if TYPE_CHECKING:
    from pipestate.migration.upgrade import Upgrade, UpgradeResult

X = Annotated[
    list[str] | None,
    typer.Option("-x", metavar="NAME=VALUE", help="For env.py, as alembic -x. May be repeated."),
]


@project_options
def upgrade(
    to: Target,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Target: a revision, a branch, head, or heads.")
    ] = "heads",
    hold: Annotated[
        bool, typer.Option("--hold", help="Exit with 0 if only revisions with a gate stay pending.")
    ] = False,
    x: X = None,
    json_: AsJson = False,
) -> None:
    """Upgrade as far as the gates allow, through the project's own env.py.

    Exit code 1: a gate is closed; with --hold, a revision without a gate stays pending behind it.

    Example: pipestate upgrade --hold
    """
    from pipestate.migration.upgrade import upgrade
    from pipestate.project.graph import find_targets

    result = upgrade(upgrade_of(to, x), find_targets(to.migrations, target))
    if json_:
        print_json(as_data(result))
    else:
        show(result, hold=hold)
    raise typer.Exit(1 if result.pending_ungated or (result.closed and not hold) else 0)


@project_options
def downgrade(
    to: Target,
    target: Annotated[
        str, typer.Argument(metavar="REV", help="Where to stop: a revision, -1 for one step, or base.")
    ],
    x: X = None,
    json_: AsJson = False,
) -> None:
    """Downgrade to a revision, through the project's own env.py. A contract restores what it dropped.

    Example: pipestate downgrade -1
    """
    from pipestate.core.errors import ConfigError
    from pipestate.migration.upgrade import downgrade

    if target.startswith("-") and not target[1:].isdecimal():
        raise ConfigError(f"{target} is no option and no revision: write a revision, -1, or base")
    result = downgrade(upgrade_of(to, x), target)
    if json_:
        print_json({"before": result.before, "after": result.after, "reverted": result.reverted})
    elif result.reverted:
        reverted = ", ".join(result.reverted)
        say(f"downgraded from {result.before} to {result.after or 'base'}: {reverted}")
    else:
        say(f"at {result.after or 'base'}: nothing to downgrade")


@project_options
def ready(
    to: Target,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="5m", help="Longest time to wait until the database is ready."),
    ] = None,
) -> None:
    """Say whether the database has every revision that this code knows. It takes no lock.

    Exit code 0: it is at head, or has newer revisions that this code does not know; 1: behind; 3: not reached.

    Example: pipestate ready --wait 5m
    """
    from pipestate.core.text import parse_age
    from pipestate.project.ready import read_readiness, wait_until_ready

    patience = parse_age(wait, option="--wait", units="dhms").total_seconds() if wait is not None else 0.0
    read = partial(read_readiness, to.url, to.locate)
    found = wait_until_ready(read, patience, lambda why: say(why, err=True))
    say(found.sentence)
    raise typer.Exit(0 if found.ok else 1)


def upgrade_of(to: Target, x: list[str] | None = None) -> "Upgrade":
    """Collect the inputs of an upgrade."""
    from pipestate.migration.upgrade import make_upgrade

    return make_upgrade(to.project, to.migrations, to.locate, to.url, x or ())


def show(result: "UpgradeResult", *, hold: bool) -> None:
    """Print applied revisions, closed gates, and every revision left pending."""
    after = result.after or "base"
    if result.applied:
        say(f"upgraded from {result.before or 'base'} to {after}: {', '.join(result.applied)}")
    else:
        say(f"at {after}: nothing {'was applied' if result.closed else 'to apply'}")
    for revision, error in result.closed.items():
        say(f"{revision} waits: {error}", err=not hold)
    if result.left_pending:
        say(f"left pending: {', '.join(result.left_pending)}", err=not hold)
    if result.pending_ungated:
        gates = [
            f"pipestate gate {runbook.name}/{phase.name}"
            for error in result.closed.values()
            for runbook, phase in error.report.phases()
        ]
        say(
            f"pipestate: {', '.join(result.pending_ungated)} have no gate, but follow a revision whose gate is "
            f"closed; new code may need them. To see what closes the gates: {'; '.join(gates)}",
            err=True,
        )


def as_data(result: "UpgradeResult") -> dict[str, Any]:
    """Return the same as data for JSON."""
    return {
        "before": result.before,
        "after": result.after,
        "applied": result.applied,
        "waiting": [
            {"revision": revision, "gate": f"{runbook.name}/{phase.name}", "why": str(error)}
            for revision, error in result.closed.items()
            for runbook, phase in error.report.phases()
        ],
        "held": [
            {"revision": revision, "gated": revision not in result.pending_ungated}
            for revision in result.left_pending
        ],
    }
