"""A closed gate as an error that Alembic prints."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from alembic import op

from pipestate.core.text import many, place, plain
from pipestate.database.connections import engine_of
from pipestate.migration.failure import MigrationError
from pipestate.migration.request import GateRequest
from pipestate.migration.run import current_run
from pipestate.migration.settings import timeout_of
from pipestate.project.find import Calls
from pipestate.runbook.model import Check
from pipestate.verify.read import QueryFailed, QueryResult, read
from pipestate.verify.report import (
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    advice_line,
    count_closing,
    gate_of,
)
from pipestate.verify.run import EVIDENCE_ROWS, NOTHING, describe, run_check
from pipestate.verify.select import SelectedCheck

NOTHING_DONE = "nothing of this revision was done"
PREPARED = "nothing was dropped; what this revision has committed before its gate stays, and a rerun goes on from there"
EARLIER_STAY = f"{NOTHING_DONE}, and the revisions before it stay"
ALL_BACK = "all of this run, which is one transaction, is rolled back"
NOT_OURS = f"{NOTHING_DONE}; this run is in a transaction that Alembic did not begin, and ends with it"


def what_was_done() -> str:
    """Describe the state that a closed gate leaves behind."""
    return PREPARED if current_run().part else NOTHING_DONE


class GateClosed(MigrationError):
    """`revision` must not run yet. `report` says why; Alembic ends without a traceback."""

    exit_code = 1

    def __init__(self, report: Report, calls: Calls, *, revision: str, kept: str = EARLIER_STAY) -> None:
        self.report = report
        self.revision = revision
        ((runbook, phase),) = report.phases()
        name = f"{runbook.name}/{phase.name}"
        lines = [
            f"the gate {name} is closed: {count_closing(phase.checks)}, so {PREPARED if current_run().part else kept}"
        ]
        for verdict in (verdict for verdict in phase.checks if verdict.closes):
            advised = verdict.advice is not None and verdict.advice.source != verdict.source
            where = "" if advised else f" ({place(verdict.source)})"
            attest = f"attest {name}/{verdict.check_id} --by YOU"
            message = verdict.message.replace(f"pipestate {attest}", calls.pipestate(attest))
            lines.append(f"  {verdict.check_id}: {plain(message)}{where}")
            if verdict.advice is not None and advised:
                lines.append(f"    Advice: {advice_line(verdict.advice)}")
        passed = sum(verdict.outcome is Outcome.PASSED for verdict in phase.checks)
        if passed:
            lines.append(f"{many(passed, 'check')} passed")
        lines.append(f"Next: {calls.pipestate(f'verify {runbook.name} --phase {phase.name}')}")
        super().__init__("\n".join(lines))


# The report of one pass of a gate: the same as `pipestate verify` for its phase.


def report_of(request: GateRequest, verdicts: Sequence[Verdict], started: tuple[datetime, float]) -> Report:
    """Combine the verdicts of a phase into a report; `started` is its start time by two clocks."""
    connection, runbook = op.get_bind(), request.runbook
    found = PhaseReport(request.phase.name, gate_of(tuple(verdicts)), request.phase.opens, tuple(verdicts))
    return Report(
        describe(connection, connection.engine.url, request.position),
        started[0],
        round((time.perf_counter() - started[1]) * 1000, 1),
        (RunbookReport(runbook.name, runbook.path, runbook.sha256, (found,)),),
    )


def evaluate_in_python(request: GateRequest, asked: Sequence[SelectedCheck]) -> Report:
    """Evaluate checks on the connection of the migration, read-only, as `pipestate verify` does."""
    connection = op.get_bind()
    started = datetime.now(UTC), time.perf_counter()
    with engine_of(connection).look(connection):
        timeout_s = timeout_of(op.get_context().config)
        verdicts = [run_check(connection, each, timeout_s) for each in asked]
    return report_of(request, verdicts, started)


def failed_rows(check: Check) -> QueryResult:
    """Read the rows that show why a check failed: its evidence, else its own rows if `rows` failed."""
    connection = op.get_bind()
    explained = check.evidence_for(connection.dialect.name)
    if explained is None or check.require.shows_own_rows:
        query = check.sql if check.require.counts_rows else None
    else:
        query = explained.sql
    if query is None:
        return NOTHING
    try:
        with engine_of(connection).look(connection):
            return read(connection, query, timeout_of(op.get_context().config), most=EVIDENCE_ROWS)
    except QueryFailed as error:
        return QueryResult(("error",), ((str(error),),), 1)
