"""What the ledger says of the phases that are meant, read in one snapshot; or why it says nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from pipestate.errors import ConfigError
from pipestate.ledger.owners import NOT_SHOWN, find_stranger
from pipestate.ledger.state import require_ledger
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.standing.facts import read_backfills, read_observations, read_rehearsals
from pipestate.standing.model import Backfilling, ClosedRecord, Day, Forced, Held, Observed, RecordedRehearsal
from pipestate.standing.records import read_days, read_forced, read_held, read_last_closed
from pipestate.standing.signoffs import Row, read_words
from pipestate.standing.source import LedgerReading
from pipestate.verify.read import explain, guarded
from pipestate.verify.report import Report
from pipestate.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was read; all of it is empty where `missing` says why; what of that is alarming is in `warnings`, too."""

    missing: str | None = None
    held: Mapping[tuple[str, str], Held] = field(default_factory=dict)
    days: Mapping[tuple[str, str], tuple[Day, ...]] = field(default_factory=dict)
    last_closed: Mapping[tuple[str, str], ClosedRecord] = field(default_factory=dict)
    words: Mapping[tuple[str, str, str], list[Row]] = field(default_factory=dict)
    observations: tuple[Observed, ...] = ()
    forced: Forced | None = None
    backfills: tuple[Backfilling, ...] = ()
    rehearsal: RecordedRehearsal | None = None
    warnings: tuple[str, ...] = ()


def read_ledger(
    source: LedgerReading,
    phases: Sequence[tuple[Runbook, Phase]],
    report: Report,
    paths: Mapping[str, Path],
    *,
    days: int,
    timeout_s: float,
) -> Recorded:
    """Read all of it. A ledger that is missing, older, a stranger's, or not for this role's eyes is a sentence.

    Whoever owns the version table is trusted where `tell_version_table` was called before, as `verify_on` does.
    """
    if found := find_stranger(source.connection):
        return Recorded(said := f"{found}; {NOT_SHOWN}", warnings=(said,))
    try:
        require_ledger(source.connection)
        with guarded(source.connection, timeout_s):
            return _read(source, phases, report, paths, days)
    except ConfigError as error:
        return Recorded(str(error))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Recorded(f"the ledger cannot be read: {explain(error, timeout_s)}")


def _read(
    source: LedgerReading,
    phases: Sequence[tuple[Runbook, Phase]],
    report: Report,
    paths: Mapping[str, Path],
    days: int,
) -> Recorded:
    signoffs = [signoff for _, phase in phases for signoff in phase.signoffs]
    return Recorded(
        None,
        read_held(source),
        read_days(source, days),
        read_last_closed(source),
        read_words(source, signoffs),
        read_observations(source, _asked(source, phases, report)),
        read_forced(source),
        read_backfills(source),
        next(iter(read_rehearsals(source, paths, most=1)), None),
    )


def _asked(
    source: LedgerReading, phases: Sequence[tuple[Runbook, Phase]], report: Report
) -> list[tuple[Check, Verdict, str]]:
    """Pair the checks with their verdicts and their addresses."""
    dialect = source.connection.dialect.name
    written = {
        f"{runbook.name}/{phase.name}/{check.id}": check
        for runbook, phase in phases
        for check in phase.checks_for(dialect)
        if isinstance(check, Check)
    }
    found = []
    for runbook, phase in report.phases():
        for verdict in phase.checks:
            address = f"{runbook.name}/{phase.name}/{verdict.check_id}"
            if address in written:
                found.append((written[address], verdict, address))
    return found
