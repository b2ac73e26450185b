"""The gate of a revision: one phase of a runbook, evaluated inside the migration itself.

    with gate("orders/readiness", lock=["order_log"], must_pass=["soak", "restore-tested"], revision=revision):
        op.drop_table("order_log")

If the tables to be locked hold no rows, the gate is open. A closed gate raises GateClosed; `-x
force="reason"` overrides it, and the ledger keeps the reason. `postgresql/gate_script.py` writes it into
scripts. Online:

1. First pass, without a lock: the whole phase. It fails fast and blocks no writer.
2. The first pass is recorded in the ledger, before the migration waits for the lock.
3. Second pass, under the lock: the checks that a late write could change; the whole phase if the tables were
   empty in the first pass and hold rows now.
4. The token is set. The ledger records a second pass that was forced or is the only one.

On PostgreSQL the server does this (`server/*.sql`), on SQLite Python (`sqlite/gate.py`). The gate never
commits.
"""

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NoReturn

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.core.errors import PipestateError
from pipestate.core.text import listed, many, place, plain
from pipestate.database import connections as db
from pipestate.database.interrupt import listen
from pipestate.migration import sql
from pipestate.migration.alembic import calls_of, has_own_transactions, is_lent
from pipestate.migration.engine import migration_engine_of
from pipestate.migration.failure import (
    MigrationError,
    logs_to_stderr,
    on_command_line,
    tell,
    translate_errors,
    warn,
)
from pipestate.migration.request import (
    NOT_ENFORCED,
    GateRequest,
    Tables,
    force_reason,
    inside,
    note_token,
    read_request,
    reason_for,
    running_revision,
    undo,
)
from pipestate.migration.run import current_run, read_settings, run_of, timeout_of
from pipestate.plan.compile import CompiledCheck
from pipestate.project.find import Calls
from pipestate.verify.checks import SelectedCheck
from pipestate.verify.read import QueryResult
from pipestate.verify.report import (
    Gate,
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    advice_line,
    count_closing,
    gate_of,
)
from pipestate.verify.run import NOTHING, describe, read_evidence, run_check

NOTHING_DONE = "nothing of this revision was done"
PREPARED = "nothing was dropped; changes that this revision committed before its gate stay, and a rerun continues after them"
EARLIER_STAY = f"{NOTHING_DONE}, and the revisions before it stay"
ALL_BACK = "all of this run, which is one transaction, is rolled back"
SINCE_COMMIT = (
    "everything after the last commit, which {} made, is rolled back. To see the revision: alembic current"
)
NOT_OURS = f"{NOTHING_DONE}; this run is part of a transaction that the caller began, and the caller ends it"


def what_was_done() -> str:
    """Describe the state that a closed gate leaves behind."""
    return _after_commits() or NOTHING_DONE


def _after_commits() -> str | None:
    """Describe a state in which this revision has committed before its gate; None if it has not."""
    run = current_run()
    if run.part:
        return PREPARED
    return (
        f"nothing more of this revision was done: it had committed {listed(run.committed)}"
        if run.committed
        else None
    )


class GateClosed(MigrationError):
    """`revision` must not run yet. `report` says why; Alembic ends without a traceback."""

    exit_code = 1

    def __init__(self, report: Report, calls: Calls, *, revision: str, kept: str = EARLIER_STAY) -> None:
        self.report = report
        self.revision = revision
        ((runbook, phase),) = report.phases()
        name = f"{runbook.name}/{phase.name}"
        lines = [f"the gate {name} is closed: {count_closing(phase.checks)}, so {_after_commits() or kept}"]
        for verdict in (verdict for verdict in phase.checks if verdict.closes):
            advised = verdict.advice is not None and verdict.advice.source != verdict.source
            where = "" if advised else f" ({place(verdict.source)})"
            attest = f"attest {name}/{verdict.check_id} --by YOU"
            message = verdict.message.replace(f"pipestate {attest}", calls.pipestate(attest))
            lines.append(f"  {verdict.check_id}: {plain(message)}{where}")
            if verdict.advice is not None and advised:
                lines.append(f"    Advice: {advice_line(verdict.advice)}")
        passed = sum(verdict.outcome is Outcome.PASSED for verdict in phase.checks)
        if passed:
            lines.append(f"{many(passed, 'check')} passed")
        lines.append(f"Next: {calls.pipestate(f'verify {runbook.name} --phase {phase.name}')}")
        super().__init__("\n".join(lines))


# The report of one pass of a gate: the same as `pipestate verify` for its phase.


def report_of(request: GateRequest, verdicts: Sequence[Verdict], started: tuple[datetime, float]) -> Report:
    """Combine the verdicts of a phase into a report; `started` is its start time by two clocks."""
    connection, runbook = op.get_bind(), request.runbook
    found = PhaseReport(request.phase.name, gate_of(tuple(verdicts)), request.phase.opens, tuple(verdicts))
    return Report(
        describe(connection, connection.engine.url, request.position),
        started[0],
        round((time.perf_counter() - started[1]) * 1000, 1),
        (RunbookReport(runbook.name, runbook.path, runbook.sha256, (found,)),),
    )


def evaluate_in_python(request: GateRequest, checks: Sequence[SelectedCheck]) -> Report:
    """Evaluate checks on the connection of the migration, read-only, as `pipestate verify` does."""
    connection = op.get_bind()
    started = datetime.now(UTC), time.perf_counter()
    with db.engine_of(connection).read_only_session(connection):
        timeout_s = timeout_of(op.get_context().config)
        verdicts = [run_check(connection, each, timeout_s) for each in checks]
    return report_of(request, verdicts, started)


def failed_rows(check: CompiledCheck) -> QueryResult:
    """Read the rows that show why a check failed."""
    if check.evidence is None:
        return NOTHING
    connection = op.get_bind()
    with db.engine_of(connection).read_only_session(connection):
        return read_evidence(connection, check, timeout_of(op.get_context().config))


# Scripts use the same message on the server: `server/gate.sql`.
NOT_EVALUATED = "the gate %s was not evaluated: there is no row in %s, so nothing can be lost"
# A rehearsal sets this listener: it gets the report of each gate, open or closed.
gate_listener: ContextVar[Callable[[str, Report], None] | None] = ContextVar("gate_listener", default=None)


@contextmanager
def gate(
    phase: str,
    *,
    lock: Sequence[str],
    recheck: Sequence[str] | None = None,
    must_pass: Sequence[str] = (),
    may_be_gone: bool = False,
    revision: str | None = None,
    lock_also: str | None = None,
) -> Iterator[None]:
    """Run the gated code only while the phase's gate is open.

    `recheck` names the checks that a late write could change; they are evaluated again under the lock. By
    default these are the blocking checks that read a locked table. `must_pass` names checks and sign-offs that
    must be in the phase, blocking, and apply now. `may_be_gone` allows absent tables. `lock_also` is a query
    for more tables.
    """
    context = op.get_context()
    if context.dialect.driver == "psycopg2" and on_command_line(context):
        listen()
    with _errors_as_sentences(context):
        if isinstance(lock, str) or not lock:
            raise MigrationError(
                f"lock={lock!r}: give a list of the tables that the change needs, at least one"
            )
        running = running_revision(revision)
        request = read_request(phase, running, recheck=recheck, must_pass=must_pass, tables=lock)
        tables = Tables(tuple(lock), may_be_gone, lock_also)
        with sql.running(running):
            _refuse_translated(context, lock)
            if may_be_gone:
                migration_engine_of(context).refuse_other_case(lock, {})
            if context.as_sql:
                migration_engine_of(context).write_gate(request, tables)
            else:
                _pass_gate(request, tables)
            current_run().passed_gates.add(request.name)
    _refuse_autocommit(context, running)
    require_others = _watch_others(context, request, lock)
    interrupted = "the statement was cancelled, and uncommitted changes of this revision are rolled back"
    with sql.running(running), inside(running, lock), _translate_interrupt(context, lambda: interrupted):
        yield
        require_others()


def require(phase: str, checks: Sequence[str], *, revision: str | None = None) -> None:
    """Evaluate these checks of a phase now, without a lock or a token; raise GateClosed if one fails."""
    context = op.get_context()
    with _errors_as_sentences(context):
        if context.as_sql:
            raise MigrationError(
                "require() evaluates checks in a running migration, which a script cannot: use `with gate(...)`, or "
                "upgrade without --sql"
            )
        request = read_request(phase, running_revision(revision), must_pass=checks)
        migration_engine_of(context).require_gate_transaction(op.get_bind(), request.revision)
        report = evaluate_in_python(request, [each for each in request.checks if each.check.id in checks])
        if _is_closed(report):
            raise _closed(context, request, report)


def _pass_gate(request: GateRequest, tables: Tables) -> None:
    """Evaluate the gate in two passes; raise GateClosed if it is closed and not forced."""
    connection = op.get_bind()
    engine = migration_engine_of(connection)
    engine.require_gate_transaction(connection, request.revision)
    report = engine.evaluate_gate(request, tables)
    engine.record_gate(request, report, None if report is None else _decide(request, report))
    with translate_errors(connection.engine.url):
        engine.lock_tables(*tables.names, also=tables.also)
    late = engine.evaluate_gate_again(request, tables, report)
    if late is None:
        engine.finish_gate(request, None, None, whole=report is None)
        if report is None:
            tell(NOT_EVALUATED, request.name, ", ".join(tables.names))
    else:
        is_reported = report is not None and _is_closed(report)
        reason = _decide(request, late, is_reported=is_reported)
        engine.finish_gate(request, late, None if is_reported else reason, whole=report is None)
    note_token(request.revision, tables.names if report is None and late is None else ())


def _decide(request: GateRequest, report: Report, *, is_reported: bool = False) -> str | None:
    """Raise GateClosed for a closed gate; return the reason if the gate is forced."""
    context = op.get_context()
    if (listener := gate_listener.get()) is not None:
        listener(request.revision, report)
    if not _is_closed(report):
        return None
    reason = reason_for(request)
    if reason is None and read_settings(context.config).enforce:
        raise _closed(context, request, report)
    if not is_reported and reason is None:
        warn("the gate %s is closed, and %s", request.name, NOT_ENFORCED)
    elif not is_reported:
        forced = "the gate %s is closed, and forced: %s; to undo it: %s"
        warn(forced, request.name, plain(reason or ""), undo(request))
    return reason or NOT_ENFORCED


def _is_closed(report: Report) -> bool:
    ((_, phase),) = report.phases()
    return phase.gate is not Gate.OPEN


def _closed(context: MigrationContext, request: GateRequest, report: Report) -> GateClosed:
    """Make the error; it describes the state of the revisions before the gate."""
    if is_lent(context):
        kept = NOT_OURS
    else:
        each = has_own_transactions(context) or not context.impl.transactional_ddl
        last = run_of(context).last_commit
        by = "this revision" if last == request.revision else "an earlier revision"
        kept = EARLIER_STAY if each else SINCE_COMMIT.format(by) if last is not None else ALL_BACK
    return GateClosed(report, calls_of(context.config), revision=request.revision, kept=kept)


def _refuse_translated(context: MigrationContext, tables: Sequence[str]) -> None:
    """Refuse tables of a schema_translate_map: Alembic would drop one table, and the gate read another."""
    if context.as_sql or context.connection is None:
        return
    places = context.connection.get_execution_options().get("schema_translate_map") or {}
    for table in tables:
        schema = table.rpartition(".")[0] or None
        if places.get(schema, schema) != schema:
            raise MigrationError(
                f"lock={table!r}: this connection has a schema_translate_map that puts it into "
                f"{places[schema]}, which the SQL of a gate and its checks does not follow: set search_path "
                "instead, or name the schema"
            )


def _refuse_autocommit(context: MigrationContext, revision: str) -> None:
    """Refuse `autocommit_block()` from the gate to the end of its revision.

    The block would commit the change before the version is stamped; a later failure could not undo it.
    """

    def refuse() -> NoReturn:
        raise MigrationError(
            f"revision {revision} has an autocommit_block() behind its gate, which would commit half of the "
            "change: move it before the gate, or into a revision of its own"
        )

    def allow_again(**_: Any) -> None:
        context.__dict__.pop("autocommit_block", None)

    context.autocommit_block = refuse  # type: ignore[method-assign]
    context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, allow_again)


def _watch_others(context: MigrationContext, request: GateRequest, lock: Sequence[str]) -> Callable[[], None]:
    """Return a function that refuses losses of tables that the gate has not locked.

    It also runs when the version is written, for statements behind the gated code. A script checks after each of them.
    """
    is_forced = force_reason(request.name) is not None or not read_settings(context.config).enforce
    if context.as_sql or is_forced:
        return lambda: None
    watched = migration_engine_of(context).watch_others(op.get_bind(), lock, request.revision)
    pending = [request.revision]

    def require() -> None:
        with _errors_as_sentences(context):
            watched()

    def at_version(**_: Any) -> None:
        if pending:
            pending.clear()
            require()

    context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, at_version)
    return require


@contextmanager
def _errors_as_sentences(context: MigrationContext) -> Iterator[None]:
    """Turn errors of the runbook, the driver and Ctrl-C into one that Alembic shows without a traceback."""
    live = not context.as_sql and context.connection is not None
    translated = translate_errors(op.get_bind().engine.url) if live else nullcontext()
    with (
        logs_to_stderr(context),
        translated,
        _translate_interrupt(context, lambda: f"the statement was cancelled, {what_was_done()}"),
    ):
        try:
            yield
        except MigrationError:
            raise
        except PipestateError as error:
            raise MigrationError(f"{error}: {what_was_done()}") from None


@contextmanager
def _translate_interrupt(context: MigrationContext, state: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an error; under an asynchronous driver of Alembic's command line it cancels the task.

    An application also cancels its tasks for other reasons: that error passes through.
    """
    try:
        yield
    except (KeyboardInterrupt, CancelledError) as error:
        if isinstance(error, CancelledError) and not on_command_line(context):
            raise
        raise MigrationError(f"interrupted: {state()}") from error
