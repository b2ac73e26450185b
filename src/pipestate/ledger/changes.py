"""What is news in a run: gates that have turned since the last record, and records that were missing."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from pipestate.engines.engine import engine_of
from pipestate.ledger.latest import LastRecord, last_records
from pipestate.ledger.state import require_ledger
from pipestate.verify.report import Gate, PhaseReport, Report

# A record a day, with six hours for a job that starts late, or a clock that is put back.
MISSING_AFTER_S = 30 * 3600


@dataclass(frozen=True, slots=True)
class Change:
    """News of one phase: its gate has turned, or a day's record was missing before this one, or both."""

    runbook: str
    phase: PhaseReport
    turned: bool
    last: LastRecord | None

    @property
    def missing_s(self) -> float | None:
        """How long there was no record before this one; None where that was no longer than it may be."""
        age = self.last.age_s if self.last else None
        return age if age is not None and age > MISSING_AFTER_S else None


def read_changes(connection: Connection, report: Report) -> tuple[Change, ...]:
    """Compare a run that is not yet recorded with the ledger, in a savepoint that writes nothing."""
    require_ledger(connection)
    with engine_of(connection).look(connection):
        last = last_records(connection)
    return compare(report, last)


def compare(report: Report, last: Iterable[LastRecord]) -> tuple[Change, ...]:
    """Find what is news. The first record of a phase is, where its gate is open: nobody has been told of it."""
    before = {(each.runbook, each.phase): each for each in last}
    found = (_change(runbook.name, phase, before) for runbook, phase in report.phases())
    return tuple(change for change in found if change.turned or change.missing_s is not None)


def _change(runbook: str, phase: PhaseReport, before: dict[tuple[str, str], LastRecord]) -> Change:
    last = before.get((runbook, phase.name))
    if phase.gate not in (Gate.OPEN, Gate.CLOSED):  # not asked, so not recorded
        return Change(runbook, phase, False, None)
    was_open = last is not None and last.is_open
    return Change(runbook, phase, (phase.gate is Gate.OPEN) != was_open, last)
