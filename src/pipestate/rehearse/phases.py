"""The pages of the project on the clone: which gates are open before the upgrade, and which after it."""

from pipestate.rehearse.felt import PhaseAsked
from pipestate.rehearse.job import Job
from pipestate.runbook.find import every_runbook
from pipestate.verify.report import Gate, PhaseReport
from pipestate.verify.run import verify
from pipestate.verify.select import find_phases

Found = dict[str, PhaseReport]
ASKED = (Gate.OPEN, Gate.CLOSED)


def ask_phases(job: Job) -> Found:
    """Run the checks of all pages on the clone, read-only; a project without a page has none."""
    books = every_runbook(job.project.runbooks)
    if not books:
        return {}
    report = verify(job.clone, find_phases(books), job.locate)
    return {f"{runbook.name}/{phase.name}": phase for runbook, phase in report.phases()}


def pair(before: Found, after: Found) -> tuple[PhaseAsked, ...]:
    """Put together the phases that apply before the upgrade or after it."""
    return tuple(
        PhaseAsked(name, before[name], after[name])
        for name in before
        if before[name].gate in ASKED or after[name].gate in ASKED
    )
