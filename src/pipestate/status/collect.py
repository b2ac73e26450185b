"""Collect the status of a database: verdicts, records of the ledger and views, all in one snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from sqlalchemy import URL, Connection, DateTime, literal_column, select
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.ledger.drift import Drift, read_drift
from pipestate.ledger.server_guard import read_server_guard
from pipestate.ledger.soft_drops import SoftDropped, find_orphans, find_soft_drops
from pipestate.ledger.state import NOT_SHOWN, find_foreign_owner, foreign_warning, require_ledger
from pipestate.ledger.tables import CLOCK, in_utc
from pipestate.project.graph import Position
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.status.facts import (
    Row,
    read_backfills,
    read_observations,
    read_recorded_signoffs,
    read_rehearsals,
    stand,
)
from pipestate.status.model import (
    Backfilling,
    ClosedRecord,
    Day,
    Forced,
    Held,
    Observed,
    PhaseStatus,
    RecordedRehearsal,
    RunbookStatus,
    Shown,
    Status,
)
from pipestate.status.opening import find_soaks, opening
from pipestate.status.records import LedgerReading, read_days, read_forced, read_held, read_last_closed
from pipestate.verify.read import QueryFailed, explain, guarded, read
from pipestate.verify.report import Gate, Report, Verdict
from pipestate.verify.run import DEFAULT_TIMEOUT_S, verify_on
from pipestate.verify.select import Phases

DAYS = 14
VIEW_ROWS = 50


@dataclass(frozen=True, slots=True)
class Recorded:
    """Records of the ledger. If `missing` gives a reason, all are empty; an alarming reason is in `warnings` too."""

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
    drift: Drift | None = None
    soft_drops: tuple[SoftDropped, ...] = ()


def collect(
    connection: Connection,
    url: URL,
    phases: Phases,
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
    judged = {(book.path, phase.name): phase for book, phase in report.phases()}
    closed = frozenset(report.addresses(Gate.CLOSED))
    forced = recorded.forced
    if forced is not None and forced.revision in position.known:  # else the chain has lost it
        forced = replace(forced, applied=forced.revision in position.applied)

    def status_of(runbook: Runbook, phase: Phase) -> PhaseStatus:
        found, key = judged[runbook.path, phase.name], (runbook.name, phase.name)
        soaks = find_soaks(phase.checks_for(report.database.dialect), found.checks, now, closed)
        signed = phase.signoffs if found.gate in (Gate.OPEN, Gate.CLOSED) and not recorded.missing else ()
        return PhaseStatus(
            phase.name,
            found.gate,
            phase.opens,
            found.checks,
            tuple(stand(each, recorded.words.get((*key, each.id), ()), now) for each in signed),
            soaks,
            opening(found.gate, soaks, found.checks),
            recorded.held.get(key),
            recorded.days.get(key, ()),
            recorded.last_closed.get(key),
        )

    runbooks = []
    for _, group in groupby(phases, key=lambda pair: pair[0].path):
        pairs = list(group)
        book = pairs[0][0]
        stands = tuple(status_of(book, phase) for _, phase in pairs)
        runbooks.append(RunbookStatus(book.name, book.title, book.path, stands))
    return Status(
        now,
        report.database,
        tuple(runbooks),
        recorded.observations,
        forced,
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


def read_clock(connection: Connection) -> datetime:
    """Read the server's clock: ages and days are counted from it, as in the ledger's views."""
    clock = literal_column(CLOCK[connection.dialect.name], DateTime(timezone=True))
    return in_utc(connection.execute(select(clock)).scalar_one())


def run_views(connection: Connection, phases: Phases, position: Position, timeout_s: float) -> list[Shown]:
    """Run the views of the phases that the database has reached, runbook by runbook."""
    views: dict[tuple[str, str], Shown] = {}
    for runbook, phase in phases:
        for view in phase.views_for(connection.dialect.name):
            # A view is shown after its phase, too: only its own `until` ends it.
            scopes = ((phase.from_, None), (view.from_, view.until))
            key = (runbook.name, view.id)
            if key in views or any(position.place(*scope) for scope in scopes):
                continue
            try:
                result = read(connection, view.sql, timeout_s, most=VIEW_ROWS)
                views[key] = Shown(view.id, result.records(), None, result.total, runbook.name)
            except QueryFailed as error:
                views[key] = Shown(view.id, (), str(error), runbook=runbook.name)
    return list(views.values())


def read_ledger(
    source: LedgerReading,
    phases: Phases,
    report: Report,
    paths: Mapping[str, Path],
    *,
    days: int,
    timeout_s: float,
) -> Recorded:
    """Read all records. A ledger that is missing, outdated, unreadable or another role's becomes one sentence.

    The owner of the version table is trusted if `set_version_table` was called before, as in `verify_on`.
    """
    if found := find_foreign_owner(source.connection):
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
    source: LedgerReading, phases: Phases, report: Report, paths: Mapping[str, Path], days: int
) -> Recorded:
    signoffs = [signoff for _, phase in phases for signoff in phase.signoffs]
    orphans = find_orphans(source.connection)
    said = f"{orphans} has hidden columns that the ledger does not know: a restore cannot find them by name"
    return Recorded(
        None,
        read_held(source),
        read_days(source, days),
        read_last_closed(source),
        read_recorded_signoffs(source, signoffs),
        read_observations(source, _asked(source, phases, report)),
        read_forced(source),
        read_backfills(source),
        next(iter(read_rehearsals(source, paths, most=1)), None),
        warnings=(*([said] if orphans else ()), *foreign_warning(source.connection)),
        drift=read_drift(source.connection),
        soft_drops=tuple(find_soft_drops(source.connection)),
    )


def _asked(source: LedgerReading, phases: Phases, report: Report) -> list[tuple[Check, Verdict, str]]:
    """Pair the checks with their verdicts and addresses."""
    verdicts = {
        f"{runbook.name}/{phase.name}/{verdict.check_id}": verdict
        for runbook, phase in report.phases()
        for verdict in phase.checks
    }
    checks = (
        (check, f"{runbook.name}/{phase.name}/{check.id}")
        for runbook, phase in phases
        for check in phase.checks_for(source.connection.dialect.name)
        if isinstance(check, Check)
    )
    return [(check, verdicts[address], address) for check, address in checks if address in verdicts]
