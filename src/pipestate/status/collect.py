"""Collect the status of a database: verdicts, records of the ledger and views, all in one snapshot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from sqlalchemy import URL, Connection, DateTime, literal_column, select
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.ledger.contracts import without_ended_backfills
from pipestate.ledger.drift import read_drift
from pipestate.ledger.soft_drops import SoftDropped, find_orphans, find_soft_drops, with_above
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
    ClosedRecord,
    Day,
    OpenStreak,
    PhaseStatus,
    RunbookStatus,
    Shown,
    Status,
)
from pipestate.status.obstacles import with_obstacles
from pipestate.status.opening import find_soaks, opening
from pipestate.status.records import (
    LedgerReading,
    read_days,
    read_forced,
    read_last_closed,
    read_open_streaks,
)
from pipestate.verify.checks import Phases
from pipestate.verify.read import QueryFailed, explain, guarded, read
from pipestate.verify.report import Gate, Report, Verdict
from pipestate.verify.run import DEFAULT_TIMEOUT_S, verify_on

DAYS = 14
VIEW_ROWS = 50


@dataclass(frozen=True, slots=True)
class PhaseRecords:
    """Records of the ledger by phase, and sign-offs by phase and name."""

    open_streak: Mapping[tuple[str, str], OpenStreak]
    days: Mapping[tuple[str, str], tuple[Day, ...]]
    last_closed: Mapping[tuple[str, str], ClosedRecord]
    words: Mapping[tuple[str, str, str], list[Row]]


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

    `url` is the connection's, as the command line resolved it; `position` is the database's place in the history. A
    ledger that is missing, outdated, unreadable or another role's becomes one sentence.
    """
    now = read_clock(connection)
    report = verify_on(connection, url, phases, position, timeout_s=timeout_s)
    report = without_ended_backfills(connection, report, phases, position)
    if position.migrations is not None:
        report = with_obstacles(connection, position.migrations, position, report)
    views = tuple(run_views(connection, phases, position, timeout_s))
    status = Status(now, report.database, _runbooks(phases, report, now), views, report.warnings)
    # The owner of the version table is trusted: `verify_on` has called `set_version_table`.
    if found := find_foreign_owner(connection):
        said = f"{found}; {NOT_SHOWN}"
        return replace(status, no_ledger=said, warnings=(*report.warnings, said))
    try:
        require_ledger(connection)
        with guarded(connection, timeout_s):
            return _with_records(status, connection, phases, report, position, days)
    except ConfigError as error:
        return replace(status, no_ledger=str(error))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return replace(status, no_ledger=f"the ledger cannot be read: {explain(error, timeout_s)}")


def _runbooks(
    phases: Phases, report: Report, now: datetime, recorded: PhaseRecords | None = None
) -> tuple[RunbookStatus, ...]:
    """Combine the verdicts of each phase with its records, and with its sign-offs if there are records."""
    judged = {(book.path, phase.name): phase for book, phase in report.phases()}
    closed = frozenset(report.addresses(Gate.CLOSED))

    def status_of(runbook: Runbook, phase: Phase) -> PhaseStatus:
        found, key = judged[runbook.path, phase.name], (runbook.name, phase.name)
        soaks = find_soaks(phase.checks_for(report.database.dialect), found.checks, now, closed)
        opens_when = opening(found.gate, soaks, found.checks)
        obstacles = tuple(said for id_, said in report.obstacles.items() if id_ in phase.opens)
        known = PhaseStatus(
            phase.name, found.gate, phase.opens, found.checks, soaks, opens_when, obstacles=obstacles
        )
        if recorded is None:
            return known
        return replace(
            known,
            sign_offs=tuple(
                stand(each, recorded.words.get((*key, each.id), ()), now)
                for each in (phase.signoffs if known.applies else ())
            ),
            open_streak=recorded.open_streak.get(key),
            days=recorded.days.get(key, ()),
            last_closed=recorded.last_closed.get(key),
        )

    found = []
    for _, group in groupby(phases, key=lambda pair: pair[0].path):
        pairs = list(group)
        book, stands = pairs[0][0], tuple(status_of(*pair) for pair in pairs)
        found.append(RunbookStatus(book.name, book.title, book.path, stands, book.default))
    return tuple(found)


def _with_records(
    status: Status,
    connection: Connection,
    phases: Phases,
    report: Report,
    position: Position,
    days: int,
) -> Status:
    """Read the records of the ledger."""
    now = status.at
    source = LedgerReading(connection, now, tuple((runbook.name, phase.name) for runbook, phase in phases))
    signoffs = [signoff for _, phase in phases for signoff in phase.signoffs]
    recorded = PhaseRecords(
        read_open_streaks(source),
        read_days(source, days),
        read_last_closed(source),
        read_recorded_signoffs(source, signoffs),
    )
    orphans = find_orphans(connection)
    said = (
        f"{orphans} has hidden columns that the ledger does not know, so no downgrade restores them: restore the "
        "ledger's records, or drop these columns"
    )
    forced = read_forced(source)
    if forced is not None and forced.revision in position.known:  # else the project has lost it
        forced = replace(forced, applied=forced.revision in position.applied)
    return replace(
        status,
        runbooks=_runbooks(phases, report, now, recorded),
        observations=read_observations(source, _evaluated(source, phases, report)),
        forced=forced,
        backfills=read_backfills(source),
        rehearsal=next(iter(read_rehearsals(source, position.paths, most=1)), None),
        warnings=(*status.warnings, *([said] if orphans else ()), *foreign_warning(connection)),
        drift=read_drift(connection),
        soft_dropped=tuple(_own_soft_drops(connection, position)),
    )


def _own_soft_drops(connection: Connection, position: Position) -> Iterator[SoftDropped]:
    """List the soft drops of this schema, each with how a downgrade restores it."""
    for dropped in find_soft_drops(connection):
        if not dropped.is_elsewhere:
            yield with_above(dropped, position)


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


def _evaluated(source: LedgerReading, phases: Phases, report: Report) -> list[tuple[Check, Verdict, str]]:
    """Pair the checks with their verdicts and addresses."""
    dialect = source.connection.dialect.name
    found = []
    for (runbook, phase), (_, judged) in zip(phases, report.phases(), strict=True):
        checks = {check.id: check for check in phase.checks_for(dialect)}
        for verdict in judged.checks:
            if isinstance(check := checks.get(verdict.check_id), Check):
                found.append((check, verdict, f"{runbook.name}/{phase.name}/{check.id}"))
    return found
