"""A gate on PostgreSQL: the server's procedures evaluate, judge and record it; Python reads the findings."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from alembic import op
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.core.text import plain
from pipestate.database.drivers import sqlstate, warnings_of
from pipestate.ledger.record import who
from pipestate.migration import server_calls as server
from pipestate.migration import sql
from pipestate.migration.closed import failed_rows, report_of
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.mark import force_reason
from pipestate.migration.request import GateRequest, Tables
from pipestate.migration.server_calls import require_usable_ledger
from pipestate.migration.settings import read_settings, timeout_of
from pipestate.runbook.model import SignOff
from pipestate.verify.judge import Judgement
from pipestate.verify.report import Outcome, Report, Verdict
from pipestate.verify.run import NOTHING, _verdict
from pipestate.verify.select import SelectedCheck, explain_signoff

NOT_READ_COMMITTED = (
    "the gate of revision {revision} needs READ COMMITTED, and this transaction is {level}: its second look would "
    "not see what was written before the lock. Give the engine isolation_level='READ COMMITTED', or change "
    "default_transaction_isolation of the role or the database"
)
AUTOCOMMIT = (
    "the gate of revision {revision} needs a transaction, and this connection commits every statement by itself: "
    "take isolation_level='AUTOCOMMIT' out of env.py"
)


def require_gate_transaction(connection: Connection, revision: str) -> None:
    """Refuse a connection with ineffective savepoints, and a transaction with an old snapshot."""
    try:
        connection.exec_driver_sql("SAVEPOINT pipestate_transaction")
        connection.exec_driver_sql("RELEASE SAVEPOINT pipestate_transaction")
    except DBAPIError as error:
        if sqlstate(error) != "25P01":
            raise
        raise MigrationError(AUTOCOMMIT.format(revision=revision)) from None
    level = str(connection.exec_driver_sql("SHOW transaction_isolation").scalar_one())
    if level != "read committed":
        raise MigrationError(NOT_READ_COMMITTED.format(revision=revision, level=level.upper()))


def require_gate_script() -> None:
    """Allow a script: its calls read the rows when they run."""


def evaluate_gate(request: GateRequest, tables: Tables) -> Report | None:
    """Begin the gate and evaluate its phase, without a lock; return None if the tables are empty."""
    connection = op.get_bind()
    timeout_s = timeout_of(op.get_context().config)
    reason = force_reason(request.name)
    more = {
        "actor": server.text(who()),
        "enforce": str(read_settings(op.get_context().config).enforce).lower(),
    } | ({"force": server.text(plain(reason))} if reason is not None else {})
    started = _now()
    require_usable_ledger(connection)
    with warnings_of(connection) as said:
        sql.emit(server.begin(request, tables, timeout_s, more))
        for line in said():
            warn("%s", plain(line))
    for number, each in enumerate(request.evaluated, start=1):
        sql.emit(server.evaluate(request, each, number))
    state = _state(connection)
    return _report(request, request.checks, state, started) if state["filled"] else None


def record_gate(request: GateRequest, report: Report | None, reason: str | None) -> None:
    """Make the server judge and record the pass without a lock."""
    del report, reason
    sql.emit(server.judge(request, len(request.evaluated)))


def evaluate_gate_again(request: GateRequest, tables: Tables, before: Report | None) -> Report | None:
    """Make the server repeat the required checks under the lock."""
    del tables, before
    connection = op.get_bind()
    started = _now()
    sql.emit(server.limit(request, timeout_of(op.get_context().config)))
    sql.emit(server.evaluate_again(request))
    state = _state(connection)
    found = {each["check_id"] for each in state["results"]}
    asked = [each for each in request.checks if each.check.id in found]
    return _report(request, asked, state, started) if asked or state["late"] else None


def finish_gate(request: GateRequest, report: Report | None, reason: str | None, *, whole: bool) -> None:
    """Make the server judge and record the pass under the lock, and set the mark."""
    del report, reason, whole
    sql.emit(server.pass_gate(request))


def watch_others(connection: Connection, lock: Sequence[str], revision: str) -> Callable[[], None]:
    """Return the call that makes the server refuse losses of other tables; it remembers them since `pass_gate`."""
    del lock
    call = f"CALL pipestate.require_others({sql.literal(revision)})"
    return partial(_run, connection, call)


def _run(connection: Connection, call: str) -> None:
    connection.exec_driver_sql(call)


def _state(connection: Connection) -> dict[str, Any]:
    """Read the gate's state in this transaction."""
    found = connection.exec_driver_sql(f"SELECT pg_catalog.current_setting('{server.STATE}', true)").scalar()
    state: dict[str, Any] = json.loads(str(found))
    return state


def _now() -> tuple[datetime, float]:
    return datetime.now(UTC), time.perf_counter()


def _report(
    request: GateRequest,
    asked: Sequence[SelectedCheck],
    state: dict[str, Any],
    started: tuple[datetime, float],
) -> Report:
    """Write the report of a pass, with the rows that show why a check failed."""
    found = {each["check_id"]: each for each in state["results"]}
    return report_of(request, [_verdict_of(each, found.get(each.check.id)) for each in asked], started)


def _verdict_of(asked: SelectedCheck, found: dict[str, Any] | None) -> Verdict:
    check = server.query_of(asked)
    judgement = Judgement(Outcome.SKIPPED, {}, asked.skipped or "")
    if found is not None:
        judgement = Judgement(Outcome(found["outcome"]), found["observed"], found["message"])
    if isinstance(asked.check, SignOff):
        judgement = explain_signoff(
            asked.check, judgement, runbook=asked.runbook.name, phase=asked.phase.name
        )
    rows = failed_rows(check) if judgement.outcome is Outcome.FAILED else NOTHING
    return _verdict(asked, check, judgement, found["duration_ms"] if found is not None else 0.0, rows)
