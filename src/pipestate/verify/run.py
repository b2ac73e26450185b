"""A run of checks: one snapshot, each check with its own timeout and savepoint; an error stops only its check.

The first connection begins alone. After a while others join, each on the first one's snapshot, so a short run opens
none of them. A connection that fails is left out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, groupby
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, current_thread
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection

from pipestate.core.progress import Checking
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.interrupt import stopped_together
from pipestate.database.urls import shown
from pipestate.plan.compile import CompiledCheck
from pipestate.project.graph import Position
from pipestate.runbook.model import Advice, SignOff
from pipestate.verify.checks import Phases, SelectedCheck, select_checks
from pipestate.verify.read import (
    CheckAnswer,
    HeldSavepoint,
    QueryFailed,
    QueryResult,
    fence,
    read,
    read_verdict,
)
from pipestate.verify.report import (
    DatabaseInfo,
    Gate,
    Json,
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    as_record,
    gate_of,
    shortened,
)
from pipestate.verify.report import shown as shown_value
from pipestate.verify.session_safety import (
    read_session_safety,
    schemas_with_impostors,
    set_file_hashes,
    set_version_table,
)

DEFAULT_TIMEOUT_S = 30.0
EVIDENCE_ROWS = 10
ALONE_S = 0.5  # after this time other connections join a run
FIRST_ROW = 200  # characters of the first row in a message
NOTHING = QueryResult((), (), 0)


def verify_on(
    leader: Connection,
    url: URL,
    phases: Phases,
    position: Position,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    jobs: int = 1,
    on_check: Checking | None = None,
    evidence: bool = True,
    most: int = EVIDENCE_ROWS,
) -> Report:
    """Run the checks on the caller's reader, and on `jobs` - 1 others that see its snapshot.

    Without `evidence` the rows that show why a check failed are not read; `most` limits them for each check. SQL that
    two phases share is read once.
    """
    started_at, start = datetime.now(UTC), time.perf_counter()
    known: dict[str, Any] = {}
    dialect = url.get_backend_name()
    selected = [
        each for runbook, phase in phases for each in select_checks(runbook, phase, position, dialect)
    ]
    total, numbers = sum(each.skipped is None for each in selected), count(1)

    def prepare(connection: Connection) -> None:
        """Set the values that SQL cannot know: the hashes of the revision files, and the version table."""
        schemas_with_impostors(connection)
        set_file_hashes(connection, (each.check for each in selected), position.paths)
        set_version_table(connection, position.version_table)

    def run(connection: Connection, behind: HeldSavepoint | None, each: SelectedCheck) -> Verdict:
        if on_check and each.skipped is None:
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
    return Report(info, started_at, round((time.perf_counter() - start) * 1000, 1), found, warnings)


def describe(connection: Connection, url: URL, position: Position) -> DatabaseInfo:
    version = engine_of(connection).server_version(connection).split()[0]
    return DatabaseInfo(shown(url), connection.dialect.name, version, position.current, position.head)


def assemble(
    phases: Phases, selected: Sequence[SelectedCheck], verdicts: Sequence[Verdict], position: Position
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
        reports.append(
            RunbookReport(runbook.name, runbook.path, runbook.sha256, tuple(found), runbook.default)
        )
    return tuple(reports)


def run_check(
    connection: Connection,
    selected: SelectedCheck,
    timeout_s: float,
    *,
    evidence: bool = True,
    known: dict[str, Any] | None = None,
    most: int = EVIDENCE_ROWS,
    behind: HeldSavepoint | None = None,
) -> Verdict:
    """Run one compiled check; an error becomes its verdict. `known` has the answers of this snapshot by their SQL."""
    if selected.skipped is not None:
        return make_verdict(selected, Outcome.SKIPPED, selected.skipped)
    known = {} if known is None else known
    check, start = selected.compiled(connection.dialect.name), time.perf_counter()
    try:
        if check.verdict not in known:
            known[check.verdict] = read_verdict(connection, check, timeout_s, behind=behind)
        answer: CheckAnswer = known[check.verdict]
    except QueryFailed as error:
        return make_verdict(selected, Outcome.ERRORED, str(error), duration_ms=_since(start))
    rows = NOTHING
    if evidence and answer.outcome is Outcome.FAILED and check.evidence is not None:
        if check.evidence not in known:
            known[check.evidence] = read_evidence(connection, check, timeout_s, most=most, behind=behind)
        rows = known[check.evidence]
    return judged(selected, check, answer, rows, duration_ms=_since(start))


def read_evidence(
    connection: Connection,
    check: CompiledCheck,
    timeout_s: float,
    *,
    most: int = EVIDENCE_ROWS,
    behind: HeldSavepoint | None = None,
) -> QueryResult:
    """Read the rows that show why a check failed; a query that fails does not hide the verdict."""
    try:
        count = not check.shows_own_rows
        return read(
            connection,
            str(check.evidence),
            timeout_s,
            most=most,
            behind=behind,
            count=count,
            is_ours=check.is_ours,
        )
    except QueryFailed as error:
        return QueryResult(("error",), ((str(error),),), 1)


def judged(
    selected: SelectedCheck,
    check: CompiledCheck,
    answer: CheckAnswer,
    rows: QueryResult = NOTHING,
    *,
    duration_ms: float = 0.0,
) -> Verdict:
    """Make the verdict of an answer, with its evidence; rows that are the fault themselves are counted and shown."""
    observed, message, total = answer.observed, answer.message, rows.total
    if check.shows_own_rows and rows.rows:
        total = max(answer.rows, total)
        message = f"{many(total, 'row')}, first: {_first_of(rows)}; required {selected.required}"
        observed = observed | as_record(rows.columns, rows.rows[0]) if answer.rows == 1 else observed
    return replace(
        make_verdict(selected, answer.outcome, message, observed, duration_ms=duration_ms),
        evidence=rows.records(),
        evidence_rows=total,
    )


def make_verdict(
    selected: SelectedCheck,
    outcome: Outcome,
    message: str,
    observed: Mapping[str, Json] = MappingProxyType({}),
    *,
    duration_ms: float = 0.0,
) -> Verdict:
    written = selected.check
    advice = Advice(written.text, selected.source) if isinstance(written, SignOff) else written.advice
    return Verdict(
        written.id,
        outcome,
        written.level,
        selected.required,
        observed,
        message,
        selected.source,
        round(duration_ms, 1),
        block=selected.block,
        advice=advice if outcome in (Outcome.FAILED, Outcome.ERRORED) else None,
    )


def _first_of(rows: QueryResult) -> str:
    """Write the first row."""
    first = [pair for pair in zip(rows.columns, rows.rows[0], strict=True) if pair[1] is not None]
    named = len(rows.columns) > 1
    listed = ", ".join(
        f"{name} {shown_value(value)}" if named else shown_value(value) for name, value in first
    )
    return shortened(listed or "NULL", FIRST_ROW)


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def share_out(
    leader: Connection,
    url: URL,
    checks: Sequence[SelectedCheck],
    run: Callable[[Connection, HeldSavepoint | None, SelectedCheck], Verdict],
    *,
    jobs: int,
    prepare: Callable[[Connection], None],
) -> list[Verdict]:
    """Run every check, on at most `jobs` connections; return their verdicts in order. `prepare` gets each that joins."""
    todo: SimpleQueue[int] = SimpleQueue()
    for number in range(len(checks)):
        todo.put(number)
    found: dict[int, Verdict] = {}
    errors: list[Exception] = []
    over, lock = Event(), Lock()
    at_work: list[Thread] = []

    def work(connection: Connection) -> None:
        with fence(connection) as behind, suppress(Empty):
            while True:
                number = todo.get_nowait()
                found[number] = run(connection, behind, checks[number])

    def help_out() -> None:
        try:
            with db.reader(url, snapshot=snapshot) as connection:
                with lock:
                    if over.is_set():
                        return
                    at_work.append(current_thread())
                prepare(connection)
                work(connection)
        except Exception as error:  # raised by the leader, if a check is left without an answer
            errors.append(error)

    def join_later() -> None:
        if not over.wait(ALONE_S):
            for _ in range(jobs - 1):
                Thread(target=help_out, daemon=True).start()

    if jobs < 2 or len(checks) < 2:
        work(leader)
    else:
        snapshot = str(leader.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
        Thread(target=join_later, daemon=True).start()
        try:
            with stopped_together():
                work(leader)
        finally:  # a thread that is still connecting finds no work when it arrives
            over.set()
            with lock:
                working = list(at_work)
            for thread in working:
                thread.join()
    if len(found) < len(checks):
        raise errors[0]
    return [found[number] for number in range(len(checks))]
