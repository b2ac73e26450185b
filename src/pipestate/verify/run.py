"""Running checks: one snapshot, each check under its own timeout and savepoint, an error stops nobody."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from queue import Empty, SimpleQueue

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.chain.position import Position
from pipestate.config import shown
from pipestate.runbook.model import Check, Phase, Runbook, SignOff
from pipestate.verify.expect import Judgement, Row, judge
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport, gate_of
from pipestate.verify.select import Asked, ask
from pipestate.verify.signoff import explain_signoff, signoff_check
from pipestate.verify.values import Json, as_record
from pipestate.verify.verdict import Outcome, Verdict

DEFAULT_TIMEOUT_S = 30.0
EVIDENCE_ROWS = 10
VIEW_ROWS = 50
AS_WRITTEN = {"no_parameters": True}


def verify(
    url: URL,
    phases: Sequence[tuple[Runbook, Phase]],
    locate: Callable[[Connection], Position],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    jobs: int = 1,
) -> Report:
    """Run the checks of these phases, read-only, on one snapshot, which also says where the database stands."""
    started_at, start = datetime.now(UTC), time.perf_counter()
    dialect = url.get_backend_name()
    with db.reader(url) as leader:
        position = locate(leader)
        asked = [each for runbook, phase in phases for each in ask(runbook, phase, position, dialect)]
        info = describe(leader, url, position)
        verdicts = _run_all(leader, url, asked, timeout_s, 1 if dialect == "sqlite" else jobs)
    duration = (time.perf_counter() - start) * 1000
    return Report(info, started_at, round(duration, 1), assemble(phases, asked, verdicts, position))


def describe(connection: Connection, url: URL, position: Position) -> DatabaseInfo:
    dialect = connection.dialect.name
    query = "SELECT sqlite_version()" if dialect == "sqlite" else "SHOW server_version"
    version = str(connection.exec_driver_sql(query).scalar_one()).split()[0]
    return DatabaseInfo(shown(url), dialect, version, position.current, position.head)


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


def _run_all(
    leader: Connection, url: URL, asked: Sequence[Asked], timeout_s: float, jobs: int
) -> list[Verdict]:
    """On one connection, or on several that share the leader's snapshot."""
    if jobs < 2 or len(asked) < 2:
        return [run_check(leader, each, timeout_s) for each in asked]
    snapshot = str(leader.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
    todo: SimpleQueue[int] = SimpleQueue()
    for number in range(len(asked)):
        todo.put(number)
    verdicts: dict[int, Verdict] = {}

    def work(connection: Connection) -> None:
        while True:
            try:
                number = todo.get_nowait()
            except Empty:
                return
            verdicts[number] = run_check(connection, asked[number], timeout_s)

    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        others = [stack.enter_context(db.reader(url, snapshot=snapshot)) for _ in range(jobs - 1)]
        for future in [pool.submit(work, connection) for connection in (leader, *others)]:
            future.result()
    return [verdicts[number] for number in range(len(asked))]


def run_check(connection: Connection, asked: Asked, timeout_s: float) -> Verdict:
    """One check; whatever happens in it becomes its verdict."""
    written = asked.check
    check = written if isinstance(written, Check) else signoff_check(written, connection.dialect.name)
    if asked.skipped is not None:
        return _verdict(asked, check, Judgement(Outcome.SKIPPED, {}, asked.skipped), 0.0)
    start = time.perf_counter()
    try:
        columns, rows = query(connection, check.sql, timeout_s)
        judgement = judge(check.require, columns, rows)
        if isinstance(written, SignOff):
            judgement = explain_signoff(written, judgement)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        judgement = Judgement(Outcome.ERRORED, {}, _reason(error, timeout_s))
    evidence: tuple[dict[str, Json], ...] = ()
    if judgement.outcome is Outcome.FAILED:
        evidence = _evidence(connection, check, timeout_s)
    return _verdict(asked, check, judgement, (time.perf_counter() - start) * 1000, evidence)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view returned, or why it could not."""

    id: str
    rows: tuple[dict[str, Json], ...]
    error: str | None


def run_views(
    connection: Connection, phases: Sequence[tuple[Runbook, Phase]], position: Position, timeout_s: float
) -> list[Shown]:
    """The views of the phases that have been reached."""
    shown_views: dict[str, Shown] = {}
    for _, phase in phases:
        for view in phase.views_for(connection.dialect.name):
            # A view goes on after its phase: only its own `until` ends it.
            scopes = ((phase.from_, None), (view.from_, view.until))
            if any(position.place(*scope) for scope in scopes) or view.id in shown_views:
                continue
            try:
                columns, rows = query(connection, view.sql, timeout_s, most=VIEW_ROWS)
            except DBAPIError as error:
                shown_views[view.id] = Shown(view.id, (), _reason(error, timeout_s))
            else:
                shown_views[view.id] = Shown(view.id, tuple(as_record(columns, row) for row in rows), None)
    return list(shown_views.values())


def _verdict(
    asked: Asked,
    check: Check,
    judgement: Judgement,
    duration_ms: float,
    evidence: tuple[dict[str, Json], ...] = (),
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
        evidence,
    )


def _evidence(connection: Connection, check: Check, timeout_s: float) -> tuple[dict[str, Json], ...]:
    """Rows that show why; a query that fails here must not hide the verdict."""
    explained = check.evidence_for(connection.dialect.name)
    if explained is None:
        return ()
    try:
        columns, rows = query(connection, explained.sql, timeout_s, most=EVIDENCE_ROWS)
    except DBAPIError as error:
        return ({"error": _reason(error, timeout_s)},)
    return tuple(as_record(columns, row) for row in rows)


def query(
    connection: Connection, statement: str, timeout_s: float, *, most: int | None = None
) -> tuple[list[str], list[Row]]:
    """The SQL as it is written: no parameters, nothing wrapped round it."""
    with _guarded(connection, timeout_s):
        result = connection.exec_driver_sql(statement, execution_options=AS_WRITTEN)
        rows = result.fetchall() if most is None else result.fetchmany(most)
        columns = list(result.keys())
        result.close()
    return columns, [tuple(row) for row in rows]


@contextmanager
def _guarded(connection: Connection, timeout_s: float) -> Iterator[None]:
    """A savepoint and a deadline of its own: after an error PostgreSQL would refuse everything else."""
    if connection.dialect.name == "sqlite":
        db.set_deadline(connection, timeout_s)
        yield
        return
    milliseconds = max(1, int(timeout_s * 1000))
    connection.exec_driver_sql(f"SAVEPOINT pipestate_check; SET LOCAL statement_timeout = {milliseconds}")
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT pipestate_check; RELEASE pipestate_check")


def _reason(error: DBAPIError, timeout_s: float) -> str:
    text = str(error.orig).strip()
    if getattr(error.orig, "pgcode", None) == "57014" or text == "interrupted":
        return f"took longer than {timeout_s:g} s: make the query faster, or give more with --timeout"
    kept = re.split(r"\n(?:LINE \d+:|CONTEXT:)", text)[0]
    return " ".join(kept.split())
