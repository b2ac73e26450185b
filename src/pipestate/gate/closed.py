"""A gate that is closed, as Alembic wants to hear it."""

from pipestate.chain.calls import Calls
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.transaction import has_committed
from pipestate.safe import plain
from pipestate.verify.report import Report

NOTHING_DONE = "nothing of this revision was done"
PREPARED = (
    "nothing was taken away. What this revision has prepared was committed and stays, of columns a copy and two triggers: "
    "run again, it goes on from there; pipestate.ddl.abandon_archived_columns takes them away"
)
EARLIER_STAY = f"{NOTHING_DONE}, and the revisions before it stay"
ALL_BACK = "all of this run, which is one transaction, is rolled back"
NOT_OURS = f"{NOTHING_DONE}; this run is in a transaction that Alembic did not begin, and ends with it"


def what_was_done() -> str:
    """Say what is left of a revision that ends at its gate."""
    return PREPARED if has_committed() else NOTHING_DONE


class GateClosed(MigrationError):
    """`revision` must not run yet. `report` says why; Alembic ends without a traceback."""

    exit_code = 1

    def __init__(self, report: Report, calls: Calls, *, revision: str, kept: str = EARLIER_STAY) -> None:
        self.report = report
        self.revision = revision
        ((runbook, phase),) = report.phases()
        closing = [verdict for verdict in phase.checks if verdict.closes]
        lines = [
            f"  {verdict.check_id}: {plain(verdict.message)} ({plain(verdict.source)})" for verdict in closing
        ]
        why = f"{len(closing)} of {len(phase.checks)} checks {'does' if len(closing) == 1 else 'do'} not hold"
        if not closing:
            why = f"of its {len(phase.checks)} checks none was asked that could close it"
            lines = ["  none of its checks applies here and blocks: nothing to ask is closed"]
        super().__init__(
            f"the gate {runbook.name}/{phase.name} is closed: {why}, so {PREPARED if has_committed() else kept}\n"
            + "\n".join(lines)
            + "\n"
            f"To look closer: {calls.pipestate(f'verify {runbook.name} --phase {phase.name}')}"
        )
