"""Running checks: one snapshot, each check under its own timeout and savepoint, an error stops nobody."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, groupby

from sqlalchemy import URL, Connection

from pipestate import db
from pipestate.chain.position import Position
from pipestate.config import shown
from pipestate.engines.engine import engine_of
from pipestate.progress import Checking, unwatched
from pipestate.runbook.model import Check, Phase, Runbook, SignOff, View
from pipestate.verify.connections import share_out
from pipestate.verify.expect import Judgement, judge
from pipestate.verify.files import tell_files
from pipestate.verify.read import fence, read
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport, gate_of
from pipestate.verify.rows import QueryFailed
from pipestate.verify.select import Asked, ask
from pipestate.verify.signoff import explain_signoff, signoff_check
from pipestate.verify.strangers import tell_version_table
from pipestate.verify.surroundings import look_around, refuse_planted
from pipestate.verify.values import Json, QueryResult
from pipestate.verify.verdict import Outcome, Verdict

DEFAULT_TIMEOUT_S = 30.0
EVIDENCE_ROWS = 10
VIEW_ROWS = 50
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
) -> Report:
    """Run the checks of these phases, read-only, on one snapshot, which also says where the database stands.

    Without `trusting`, refuse where somebody else could answer in the server's place, as a gate does.
    """
    start = time.perf_counter()
    with db.reader(url) as leader:
        if not trusting:
            refuse_planted(leader)
        report = verify_on(
            leader, url, phases, locate(leader), timeout_s=timeout_s, jobs=jobs, on_check=on_check
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
) -> Report:
    """Run the checks on a reader of the caller, and on `jobs` - 1 others that see its snapshot.

    Without `evidence` nobody asks for the rows that show why a check failed: for whoever does not show them. What
    two phases ask in the same words is read once: they see one snapshot.
    """
    started_at, start = datetime.now(UTC), time.perf_counter()
    known: dict[str, QueryResult] = {}
    dialect = url.get_backend_name()
    asked = [each for runbook, phase in phases for each in ask(runbook, phase, position, dialect)]
    tell = partial(_tell, asked=asked, position=position)
    info = describe(leader, url, position)
    warnings = look_around(leader)
    tell(leader)
    verdicts = share_out(
        leader,
        url,
        asked,
        _telling(asked, partial(run_check, timeout_s=timeout_s, evidence=evidence, known=known), on_check),
        jobs=1 if engine_of(url).IS_FILE else jobs,
        prepare=tell,
        within=fence,
    )
    found = assemble(phases, asked, verdicts, position)
    return Report(info, started_at, _milliseconds(start), found, warnings)


def _tell(connection: Connection, asked: Sequence[Asked], position: Position) -> None:
    """Tell SQL what it cannot know: the files of the chain, and the table that says where the database stands."""
    tell_files(connection, asked, position.paths)
    tell_version_table(connection, position.version_table)


def _milliseconds(since: float) -> float:
    return round((time.perf_counter() - since) * 1000, 1)


def describe(connection: Connection, url: URL, position: Position) -> DatabaseInfo:
    version = engine_of(connection).server_version(connection).split()[0]
    return DatabaseInfo(shown(url), connection.dialect.name, version, position.current, position.head)


def assemble(
    phases: Sequence[tuple[Runbook, Phase]],
    asked: Sequence[Asked],
    verdicts: Sequence[Verdict],
    position: Position,
) -> tuple[RunbookReport, ...]:
    """Verdicts, in the order in which they were asked, back into phases and runbooks."""
    by_phase: dict[tuple[str, str], list[Verdict]] = {}
    for each, verdict in zip(asked, verdicts, strict=True):
        by_phase.setdefault((each.runbook.path, each.phase.name), []).append(verdict)
    reports = []
    for _, group in groupby(phases, key=lambda pair: pair[0].path):
        pairs = list(group)
        runbook = pairs[0][0]
        reports.append(
            RunbookReport(
                runbook.name,
                runbook.path,
                runbook.sha256,
                tuple(
                    _phase_report(phase, tuple(by_phase.get((runbook.path, phase.name), ())), position)
                    for _, phase in pairs
                ),
            )
        )
    return tuple(reports)


def _phase_report(phase: Phase, checks: tuple[Verdict, ...], position: Position) -> PhaseReport:
    place = position.place(phase.from_, phase.until)
    return PhaseReport(phase.name, Gate(place) if place else gate_of(checks), phase.opens, checks)


def _telling(
    asked: Sequence[Asked], check: Callable[[Connection, Asked], Verdict], on_check: Checking
) -> Callable[[Connection, Asked], Verdict]:
    """Return a `run_check` that first tells which check it is, of how many; what is skipped does not count."""
    total, numbers = sum(each.skipped is None for each in asked), count(1)

    def run(connection: Connection, each: Asked) -> Verdict:
        if each.skipped is None:
            on_check(f"{each.runbook.name}/{each.phase.name}/{each.check.id}", next(numbers), total)
        return check(connection, each)

    return run


def run_check(
    connection: Connection,
    asked: Asked,
    timeout_s: float,
    *,
    evidence: bool = True,
    known: dict[str, QueryResult] | None = None,
) -> Verdict:
    """One check; whatever happens in it becomes its verdict. `known` has what this snapshot has answered already."""
    written = asked.check
    here = {"runbook": asked.runbook.name, "phase": asked.phase.name}
    check = written if isinstance(written, Check) else signoff_check(written, connection.dialect.name, **here)
    if asked.skipped is not None:
        return _verdict(asked, check, Judgement(Outcome.SKIPPED, {}, asked.skipped), 0.0)
    start = time.perf_counter()
    result = NOTHING
    try:
        result = _read_once(connection, check.sql, timeout_s, {} if known is None else known)
        judgement = judge(check.require, result)
        if isinstance(written, SignOff):
            judgement = explain_signoff(written, judgement, **here)
    except QueryFailed as error:
        judgement = Judgement(Outcome.ERRORED, {}, str(error))
    shown_rows = NOTHING
    if evidence and judgement.outcome is Outcome.FAILED:
        shown_rows = _evidence(connection, check, result, timeout_s)
    return _verdict(asked, check, judgement, (time.perf_counter() - start) * 1000, shown_rows)


def _read_once(
    connection: Connection, sql: str, timeout_s: float, known: dict[str, QueryResult]
) -> QueryResult:
    if sql not in known:
        known[sql] = read(connection, sql, timeout_s, most=EVIDENCE_ROWS)
    return known[sql]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view returned, or why it could not; `total` counts the rows that are not shown, too."""

    id: str
    rows: tuple[dict[str, Json], ...]
    error: str | None
    total: int = 0
    runbook: str = ""


def run_views(
    connection: Connection, phases: Sequence[tuple[Runbook, Phase]], position: Position, timeout_s: float
) -> list[Shown]:
    """The views of the phases that have been reached, page by page."""
    shown_views: dict[tuple[str, str], Shown] = {}
    for runbook, phase in phases:
        for view in phase.views_for(connection.dialect.name):
            # A view goes on after its phase: only its own `until` ends it.
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
    asked: Asked, check: Check, judgement: Judgement, duration_ms: float, evidence: QueryResult = NOTHING
) -> Verdict:
    return Verdict(
        check.id,
        judgement.outcome,
        check.level,
        check.require.text,
        judgement.observed,
        judgement.message,
        asked.source,
        round(duration_ms, 1),
        evidence.records(),
        evidence.total,
        asked.block,
    )


def _evidence(connection: Connection, check: Check, own: QueryResult, timeout_s: float) -> QueryResult:
    """Rows that show why: those of its evidence, else its own where `rows` is what failed.

    A query that fails here must not hide the verdict.
    """
    explained = check.evidence_for(connection.dialect.name)
    if explained is None or check.require.shows_own_rows:
        return own if check.require.counts_rows else NOTHING
    try:
        return read(connection, explained.sql, timeout_s, most=EVIDENCE_ROWS)
    except QueryFailed as error:
        return QueryResult(("error",), ((str(error),),), 1)
