"""A run of checks: one snapshot, each check with its own timeout and savepoint; an error stops only its check.

The first connection begins alone. After a while others join, each on the first one's snapshot, so a short run opens
none of them. A connection that fails is left out.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count, groupby
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, current_thread

from sqlalchemy import URL, Connection

from pipestate.core.progress import Checking
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.interrupt import stopped_together
from pipestate.database.urls import shown
from pipestate.project.graph import Position
from pipestate.runbook.model import Advice, Check, SignOff
from pipestate.verify.checks import (
    Judgement,
    Phases,
    SelectedCheck,
    explain_signoff,
    judge,
    select_checks,
    signoff_check,
)
from pipestate.verify.read import HeldSavepoint, QueryFailed, QueryResult, fence, read
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
from pipestate.verify.session_safety import (
    read_session_safety,
    reads_ledger,
    set_file_hashes,
    set_version_table,
)

DEFAULT_TIMEOUT_S = 30.0
EVIDENCE_ROWS = 10
ALONE_S = 0.5  # after this time other connections join a run
NO_ROW, NOTHING_RECORDED = "no row, ", "nothing recorded yet, "  # the second of a check on the ledger
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
    known: dict[str, QueryResult] = {}
    dialect = url.get_backend_name()
    selected = [
        each for runbook, phase in phases for each in select_checks(runbook, phase, position, dialect)
    ]
    total, numbers = sum(each.skipped is None for each in selected), count(1)

    def prepare(connection: Connection) -> None:
        """Set the values that SQL cannot know: the hashes of the revision files, and the version table."""
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
    known: dict[str, QueryResult] | None = None,
    most: int = EVIDENCE_ROWS,
    behind: HeldSavepoint | None = None,
) -> Verdict:
    """Run one check; an error becomes its verdict. `known` has the results of this snapshot by their SQL."""
    written = selected.check
    here = {"runbook": selected.runbook.name, "phase": selected.phase.name}
    check = written if isinstance(written, Check) else signoff_check(written, connection.dialect.name, **here)
    if selected.skipped is not None:
        return make_verdict(selected, check, Judgement(Outcome.SKIPPED, {}, selected.skipped), 0.0)
    start = time.perf_counter()
    result = NOTHING
    try:
        known = {} if known is None else known
        if check.sql not in known:
            known[check.sql] = read(connection, check.sql, timeout_s, most=most, behind=behind)
        result = known[check.sql]
        judgement = judge(check.require, result)
        if isinstance(written, SignOff):
            judgement = explain_signoff(written, judgement, **here)
    except QueryFailed as error:
        judgement = Judgement(Outcome.ERRORED, {}, str(error))
    shown_rows = NOTHING
    if evidence and judgement.outcome is Outcome.FAILED:
        # Rows of its evidence, else its own if it counts rows. A query that fails here does not hide the verdict.
        explained = check.evidence_for(connection.dialect.name)
        if explained is None or check.require.shows_own_rows:
            shown_rows = result if check.require.counts_rows else NOTHING
        else:
            try:
                shown_rows = read(connection, explained.sql, timeout_s, most=most, behind=behind)
            except QueryFailed as error:
                shown_rows = QueryResult(("error",), ((str(error),),), 1)
    return make_verdict(selected, check, judgement, (time.perf_counter() - start) * 1000, shown_rows)


def make_verdict(
    selected: SelectedCheck,
    check: Check,
    judgement: Judgement,
    duration_ms: float,
    evidence: QueryResult = NOTHING,
) -> Verdict:
    written, message = selected.check, judgement.message
    if message.startswith(NO_ROW) and reads_ledger(check.sql):
        message = message.replace(NO_ROW, NOTHING_RECORDED, 1)
    advice = Advice(written.text, selected.source) if isinstance(written, SignOff) else written.advice
    return Verdict(
        check.id,
        judgement.outcome,
        check.level,
        check.require.text,
        judgement.observed,
        message,
        selected.source,
        round(duration_ms, 1),
        evidence.records(),
        evidence.total,
        selected.block,
        advice if judgement.outcome in (Outcome.FAILED, Outcome.ERRORED) else None,
    )


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
