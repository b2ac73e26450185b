"""Down again and up again: does a downgrade bring everything back, and can the upgrade be run once more?

The second upgrade meets patient readers: nothing is measured then.
"""

from collections.abc import Sequence

from pipestate.chain.position import Position
from pipestate.errors import ConfigError
from pipestate.rehearse.child_process import Step, run_child
from pipestate.rehearse.contents import Contents, differences, read_contents
from pipestate.rehearse.felt import Met, Return
from pipestate.rehearse.job import Job
from pipestate.rehearse.patient import Meetings, meet
from pipestate.rehearse.readers import Asked


def require_way_back(job: Job, position: Position, wanted: Sequence[str]) -> Step:
    """Return the downgrade that leads back; ConfigError where one command cannot."""
    current = position.current
    pending = job.chain.ancestors(wanted) - position.applied
    if current is None:
        return ("downgrade", "base")
    if current in job.chain and all(current in job.chain.ancestors([revision]) for revision in pending):
        return ("downgrade", current)
    raise ConfigError(
        f"--there-and-back needs one revision to go back to, and this clone is at {current}, which is not below all that "
        "is pending: rehearse one branch with --to"
    )


def come_back(
    job: Job, down: Step, up: Sequence[Step], before: Contents, asked: Asked
) -> tuple[tuple[Met, ...], Return]:
    """Take the revisions back and compare with before; apply them again and compare with the first time.

    The second time only the number of rows is compared: what an upgrade computes from the clock is another.
    """
    first = read_contents(job.clone)
    taken_back = run_child(job, [down])
    if taken_back.failure is not None:
        return (), Return(failure=taken_back.failure)
    back = tuple(differences(before, read_contents(job.clone)))
    repeated = _repeat(job, up, asked)
    if repeated.failure is not None:
        return repeated.met, Return(back, failure=repeated.failure)
    again = tuple(differences(first, read_contents(job.clone), rows=False))
    return repeated.met, Return(back, again)


def _repeat(job: Job, up: Sequence[Step], asked: Asked) -> Meetings:
    if asked:
        return meet(job, up, asked)
    return Meetings((), run_child(job, up).failure)
