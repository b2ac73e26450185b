"""A run of checks: one snapshot, each check with its own timeout and savepoint; an error stops only its check."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, groupby

from sqlalchemy import URL, Connection

from pipestate.core.progress import Checking, unwatched
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.urls import shown
from pipestate.project.graph import Position
from pipestate.runbook.model import Advice, Check, Phase, Runbook, SignOff, View
from pipestate.verify.connections import share_out
from pipestate.verify.judge import Judgement, judge
from pipestate.verify.ledger_owner import reads_ledger, set_file_hashes, set_version_table
from pipestate.verify.read import HeldSavepoint, read
from pipestate.verify.report import (
    DatabaseInfo,
    Gate,
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    gate_of,
)
from pipestate.verify.select import SelectedCheck, explain_signoff, select_checks, signoff_check
from pipestate.verify.session_safety import read_session_safety, refuse_planted
from pipestate.verify.values import Json, QueryFailed, QueryResult

DEFAULT_TIMEOUT_S = 30.0
EVIDENCE_ROWS = 10
VIEW_ROWS = 50
NOTHING_RECORDED = "nothing recorded yet"  # of a check on the ledger, instead of "no row"
NOTHING = QueryResult((), (), 0)


def verify(
    url: URL,
    phases: Sequence[tuple[Runbook, Phase]],
    locate: Callable[[Connection], Position],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    jobs: int = 1,
    on_check: Checking = unwatched,
    trusting: bool = True,
    most: int = EVIDENCE_ROWS,
) -> Report:
    """Run the checks of these phases, read-only, on one snapshot, in which the position is read, too.

    Without `trusting`, refuse objects that another role planted on the search path, as a gate does. `most` limits the
    rows of evidence of each check.
    """
    start = time.perf_counter()
    with db.reader(url) as leader:
        if not trusting:
            refuse_planted(leader)
        report = verify_on(
            leader, url, phases, locate(leader), timeout_s=timeout_s, jobs=jobs, on_check=on_check, most=most
        )
    return replace(report, duration_ms=_milliseconds(start))


def verify_on(
    leader: Connection,
    url: URL,
    phases: Sequence[tuple[Runbook, Phase]],
    position: Position,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    jobs: int = 1,
    on_check: Checking = unwatched,
    evidence: bool = True,
    most: int = EVIDENCE_ROWS,
) -> Report:
    """Run the checks on the caller's reader, and on `jobs` - 1 others that see its snapshot.

    Without `evidence` the rows that show why a check failed are not read. SQL that two phases share is read once.
    """
    started_at, start = datetime.now(UTC), time.perf_counter()
    known: dict[str, QueryResult] = {}
    dialect = url.get_backend_name()
    selected = [
        each for runbook, phase in phases for each in select_checks(runbook, phase, position, dialect)
    ]
    total, numbers = sum(each.skipped is None for each in selected), count(1)

    def prepare(connection: Connection) -> None:
        """Set the values that SQL cannot know: the hashes of the chain's files, and the version table."""
        set_file_hashes(connection, (each.check for each in selected), position.paths)
        set_version_table(connection, position.version_table)

    def run(connection: Connection, behind: HeldSavepoint | None, each: SelectedCheck) -> Verdict:
        if each.skipped is None:
            on_check(f"{each.runbook.name}/{each.phase.name}/{each.check.id}", next(numbers), total)
        return run_check(
            connection, each, timeout_s, evidence=evidence, known=known, most=most, behind=behind
        )

    info = describe(leader, url, position)
    warnings = read_session_safety(leader)
    prepare(leader)
    jobs = 1 if engine_of(url).IS_FILE else jobs
    verdicts = share_out(leader, url, selected, run, jobs=jobs, prepare=prepare)
    found = assemble(phases, selected, verdicts, position)
    return Report(info, started_at, _milliseconds(start), found, warnings)


def _milliseconds(since: float) -> float:
    return round((time.perf_counter() - since) * 1000, 1)


def describe(connection: Connection, url: URL, position: Position) -> DatabaseInfo:
    version = engine_of(connection).server_version(connection).split()[0]
    return DatabaseInfo(shown(url), connection.dialect.name, version, position.current, position.head)


def assemble(
    phases: Sequence[tuple[Runbook, Phase]],
    selected: Sequence[SelectedCheck],
    verdicts: Sequence[Verdict],
    position: Position,
) -> tuple[RunbookReport, ...]:
    """Group the verdicts, which have the order of the selected checks, by phase and runbook."""
    by_phase: dict[tuple[str, str], list[Verdict]] = {}
    for each, verdict in zip(selected, verdicts, strict=True):
        by_phase.setdefault((each.runbook.path, each.phase.name), []).append(verdict)
    reports = []
    for _, group in groupby(phases, key=lambda pair: pair[0].path):
        found = []
        for runbook, phase in group:
            checks = tuple(by_phase.get((runbook.path, phase.name), ()))
            place = position.place(phase.from_, phase.until)
            gate = Gate(place) if place else gate_of(checks)
            found.append(PhaseReport(phase.name, gate, phase.opens, checks, phase.text_sha256))
        reports.append(RunbookReport(runbook.name, runbook.path, runbook.sha256, tuple(found)))
    return tuple(reports)


def run_check(
    connection: Connection,
    selected: SelectedCheck,
    timeout_s: float,
    *,
    evidence: bool = True,
    known: dict[str, QueryResult] | None = None,
    most: int = EVIDENCE_ROWS,
    behind: HeldSavepoint | None = None,
) -> Verdict:
    """Run one check; an error becomes its verdict. `known` has the results of this snapshot by their SQL."""
    written = selected.check
    here = {"runbook": selected.runbook.name, "phase": selected.phase.name}
    check = written if isinstance(written, Check) else signoff_check(written, connection.dialect.name, **here)
    if selected.skipped is not None:
        return _verdict(selected, check, Judgement(Outcome.SKIPPED, {}, selected.skipped), 0.0)
    start = time.perf_counter()
    result = NOTHING
    try:
        known = {} if known is None else known
        if check.sql not in known:
            known[check.sql] = read(connection, check.sql, timeout_s, most=most, behind=behind)
        result = known[check.sql]
        judgement = judge(check.require, result)
        if judgement.outcome is Outcome.FAILED and not result.total and reads_ledger(check.sql):
            judgement = replace(judgement, message=judgement.message.replace("no row", NOTHING_RECORDED, 1))
        if isinstance(written, SignOff):
            judgement = explain_signoff(written, judgement, **here)
    except QueryFailed as error:
        judgement = Judgement(Outcome.ERRORED, {}, str(error))
    shown_rows = NOTHING
    if evidence and judgement.outcome is Outcome.FAILED:
        shown_rows = _evidence(connection, check, result, timeout_s, most, behind)
    return _verdict(selected, check, judgement, (time.perf_counter() - start) * 1000, shown_rows)


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of a view, or its error; `total` counts all rows."""

    id: str
    rows: tuple[dict[str, Json], ...]
    error: str | None
    total: int = 0
    runbook: str = ""


def run_views(
    connection: Connection, phases: Sequence[tuple[Runbook, Phase]], position: Position, timeout_s: float
) -> list[Shown]:
    """Run the views of the phases that the database has reached, runbook by runbook."""
    shown_views: dict[tuple[str, str], Shown] = {}
    for runbook, phase in phases:
        for view in phase.views_for(connection.dialect.name):
            # A view is shown after its phase, too: only its own `until` ends it.
            scopes = ((phase.from_, None), (view.from_, view.until))
            key = (runbook.name, view.id)
            if key not in shown_views and not any(position.place(*scope) for scope in scopes):
                shown_views[key] = _shown(connection, runbook, view, timeout_s)
    return list(shown_views.values())


def _shown(connection: Connection, runbook: Runbook, view: View, timeout_s: float) -> Shown:
    try:
        result = read(connection, view.sql, timeout_s, most=VIEW_ROWS)
    except QueryFailed as error:
        return Shown(view.id, (), str(error), runbook=runbook.name)
    return Shown(view.id, result.records(), None, result.total, runbook.name)


def _verdict(
    selected: SelectedCheck,
    check: Check,
    judgement: Judgement,
    duration_ms: float,
    evidence: QueryResult = NOTHING,
) -> Verdict:
    written = selected.check
    advice = Advice(written.text, selected.source) if isinstance(written, SignOff) else written.advice
    return Verdict(
        check.id,
        judgement.outcome,
        check.level,
        check.require.text,
        judgement.observed,
        judgement.message,
        selected.source,
        round(duration_ms, 1),
        evidence.records(),
        evidence.total,
        selected.block,
        advice if judgement.outcome in (Outcome.FAILED, Outcome.ERRORED) else None,
    )


def _evidence(
    connection: Connection,
    check: Check,
    own: QueryResult,
    timeout_s: float,
    most: int,
    behind: HeldSavepoint | None,
) -> QueryResult:
    """Read the rows that show why: those of its evidence, else its own if it counts rows.

    A query that fails here does not hide the verdict.
    """
    explained = check.evidence_for(connection.dialect.name)
    if explained is None or check.require.shows_own_rows:
        return own if check.require.counts_rows else NOTHING
    try:
        return read(connection, explained.sql, timeout_s, most=most, behind=behind)
    except QueryFailed as error:
        return QueryResult(("error",), ((str(error),),), 1)
