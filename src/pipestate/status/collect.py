"""Collect the status of a database: verdicts, records and views, all in one snapshot."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from sqlalchemy import URL, Connection, DateTime, literal_column, select

from pipestate.ledger.history import in_utc
from pipestate.ledger.server_guard import read_server_guard
from pipestate.ledger.tables import CLOCK
from pipestate.project.graph import Position
from pipestate.runbook.model import Phase, Runbook
from pipestate.status.ledger import Recorded, read_ledger, stand
from pipestate.status.model import Forced, PhaseStatus, RunbookStatus, Status
from pipestate.status.opening import find_soaks, opening
from pipestate.status.records import LedgerReading
from pipestate.verify.report import Gate, PhaseReport, Report
from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_views, verify_on

DAYS = 14


def collect(
    connection: Connection,
    url: URL,
    phases: Sequence[tuple[Runbook, Phase]],
    position: Position,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    days: int = DAYS,
) -> Status:
    """Collect the status of the phases, on a connection of `db.reader`; `days` limits the daily counts.

    `url` is the connection's, as the command line resolved it; `position` is the database's place in the chain.
    """
    now = read_clock(connection)
    report = verify_on(connection, url, phases, position, timeout_s=timeout_s)
    source = LedgerReading(connection, now, tuple((runbook.name, phase.name) for runbook, phase in phases))
    recorded = read_ledger(source, phases, report, position.paths, days=days, timeout_s=timeout_s)
    return Status(
        now,
        report.database,
        _runbooks(phases, report, recorded, now),
        recorded.observations,
        _forced(recorded.forced, position),
        recorded.backfills,
        recorded.rehearsal,
        tuple(run_views(connection, phases, position, timeout_s)),
        (*report.warnings, *recorded.warnings, *_server_guard(connection)),
        recorded.missing,
        recorded.drift,
        recorded.soft_drops,
    )


def _server_guard(connection: Connection) -> tuple[str, ...]:
    """Describe the fault of the guard in the server, if it is installed and has one."""
    found = read_server_guard(connection)
    return (found.fault,) if found is not None and found.fault is not None else ()


def _forced(forced: Forced | None, position: Position) -> Forced | None:
    """Mark whether a forced revision is still applied; a revision that the chain has lost stays unmarked."""
    if forced is None or forced.revision not in position.known:
        return forced
    return replace(forced, applied=forced.revision in position.applied)


def read_clock(connection: Connection) -> datetime:
    """Read the server's clock: ages and days are counted from it, as in the ledger's views."""
    clock = literal_column(CLOCK[connection.dialect.name], DateTime(timezone=True))
    return in_utc(connection.execute(select(clock)).scalar_one())


def _runbooks(
    phases: Sequence[tuple[Runbook, Phase]], report: Report, recorded: Recorded, now: datetime
) -> tuple[RunbookStatus, ...]:
    judged = {(book.path, phase.name): phase for book, phase in report.phases()}
    dialect = report.database.dialect
    closed = frozenset(
        f"{book.name}/{phase.name}" for book, phase in report.phases() if phase.gate is Gate.CLOSED
    )
    found = []
    for _, group in groupby(phases, key=lambda pair: pair[0].path):
        pairs = list(group)
        runbook = pairs[0][0]
        stands = (
            _phase(
                runbook,
                phase,
                judged[runbook.path, phase.name],
                recorded,
                now,
                closed=closed,
                dialect=dialect,
            )
            for _, phase in pairs
        )
        found.append(RunbookStatus(runbook.name, runbook.title, runbook.path, tuple(stands)))
    return tuple(found)


def _phase(
    runbook: Runbook,
    phase: Phase,
    judged: PhaseReport,
    recorded: Recorded,
    now: datetime,
    *,
    closed: frozenset[str],
    dialect: str,
) -> PhaseStatus:
    key = (runbook.name, phase.name)
    applies = judged.gate in (Gate.OPEN, Gate.CLOSED)
    soaks = find_soaks(phase.checks_for(dialect), judged.checks, now, closed)
    signoffs = (
        stand(signoff, recorded.words.get((*key, signoff.id), ()), now)
        for signoff in phase.signoffs
        if applies and recorded.missing is None
    )
    return PhaseStatus(
        phase.name,
        judged.gate,
        phase.opens,
        judged.checks,
        tuple(signoffs),
        soaks,
        opening(judged.gate, soaks, judged.checks),
        recorded.held.get(key),
        recorded.days.get(key, ()),
        recorded.last_closed.get(key),
    )
