"""`pipestate upgrade`: as far as the gates let it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import print_json, say

if TYPE_CHECKING:
    from pipestate.environment.upgrade import Climb, Climbed


@project_options
def upgrade(
    to: Target,
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="How far: a revision, a branch, head, or heads."),
    ] = "heads",
    hold: Annotated[
        bool, typer.Option("--hold", help="Exit with 0 where a gate is closed: what stands behind it waits.")
    ] = False,
    json_: AsJson = False,
) -> None:
    """Upgrade as far as the gates allow, through the project's own env.py.

    Exit code 0: all is applied or, with --hold, waits; 1: a gate is closed.

    Example: pipestate upgrade --hold
    """
    from pipestate.chain.target import find_targets
    from pipestate.environment.upgrade import climb

    climbed = climb(climb_of(to), find_targets(to.chain, target))
    if json_:
        print_json(as_data(climbed))
    else:
        tell(climbed, hold=hold)
    raise typer.Exit(1 if climbed.closed and not hold else 0)


def climb_of(to: Target) -> "Climb":
    """Collect what an upgrade needs; a page whose `opens` is broken is refused."""
    from pipestate.chain.revisions import refuse_wrong_revisions
    from pipestate.environment.upgrade import Climb
    from pipestate.runbook.find import every_runbook

    books = every_runbook(to.project.runbooks)
    refuse_wrong_revisions(to.chain, books, to.project.named)
    opened = {revision for book in books for phase in book.phases for revision in phase.opens}
    asking = {revision.id for revision in to.chain if revision.gates}
    return Climb(to.url, to.project, to.chain, to.locate, frozenset(opened | asking))


def tell(climbed: "Climbed", *, hold: bool) -> None:
    """Say what was applied, and what waits for which gate."""
    after = climbed.after or "base"
    if climbed.applied:
        say(f"upgraded from {climbed.before or 'base'} to {after}: {', '.join(climbed.applied)}")
    else:
        say(f"at {after}: nothing {'was applied' if climbed.closed else 'to apply'}")
    for revision, error in climbed.closed.items():
        say(f"{revision} waits: {error}", err=not hold)


def as_data(climbed: "Climbed") -> dict[str, Any]:
    """The same as JSON has it."""
    return {
        "before": climbed.before,
        "after": climbed.after,
        "applied": climbed.applied,
        "waiting": [
            {"revision": revision, "gate": f"{runbook.name}/{phase.name}", "why": str(error)}
            for revision, error in climbed.closed.items()
            for runbook, phase in error.report.phases()
        ],
    }
