"""A gate on PostgreSQL: the calls to the server, the same online and in a script, and the report of their
findings."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from alembic import op
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.text import plain
from pipestate.database.connections import run_own
from pipestate.database.drivers import sqlstate, warnings_of
from pipestate.ledger.functions import fault_of
from pipestate.ledger.record import who
from pipestate.ledger.state import has_ledger, require_trusted
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.gate import failed_rows, report_of
from pipestate.migration.postgresql.calls import NO_RIGHTS
from pipestate.migration.request import GateRequest, Tables, force_reason
from pipestate.migration.run import current_run, read_settings, timeout_of
from pipestate.runbook.model import SignOff
from pipestate.verify.checks import SelectedCheck
from pipestate.verify.read import NO_LEDGER, answer_of
from pipestate.verify.report import Outcome, Report, Verdict
from pipestate.verify.run import NOTHING, judged, make_verdict
from pipestate.verify.session_safety import files_as_json, reads_rehearsals

# Use the oid: a name in a schema that this role may not use is an error.
MAY_USE = """SELECT current_user::text, has_schema_privilege(n.oid, 'USAGE') AND bool_and(
      has_table_privilege(c.oid, 'SELECT') AND has_any_column_privilege(c.oid, 'INSERT'))
      AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND NOT has_function_privilege(p.oid, 'EXECUTE'))
    FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
    WHERE n.nspname = 'pipestate' AND c.relname IN ('run', 'result') GROUP BY n.oid"""


def ledger_fault(connection: Connection, *, has_compared: bool = False) -> str | None:
    """Say why the ledger is missing, older, another role's or altered; None if it is intact."""
    try:
        require_trusted(connection)
    except PipestateError as error:
        return str(error)
    return fault_of(connection, has_compared=has_compared) if has_ledger(connection) else NO_LEDGER


def require_usable_ledger(connection: Connection) -> None:
    """Refuse a ledger that is missing, older, another role's, altered, or closed to this role."""
    if fault := ledger_fault(connection, has_compared=current_run().has_compared):
        raise ConfigError(fault)
    current_run().has_compared = True
    ((role, may),) = run_own(connection, MAY_USE)
    if not may:
        raise MigrationError(NO_RIGHTS.format(role=role, literal=sql.literal(role)))


# Calls of a gate to the server: the same text online and in a script. The procedures are in
# `migration/server/gate.sql` and `gated.sql`. A gate keeps its findings in a setting of its transaction. This
# detects a part that is left out, pasted alone or run in another transaction.


STATE = "pipestate.gate_state"
PATH = "pg_catalog.current_schemas(false)"
# PostgreSQL takes 100 arguments; longer lists are written as one array.
MOST_LINES = 90


def call_begin(request: GateRequest, tables: Tables, timeout_s: float, more: Mapping[str, str]) -> str:
    """Write the call that begins a gate; `more` names further arguments, as SQL."""
    arguments = {
        "revision": text(request.revision),
        "runbook": text(request.runbook.name),
        "phase": text(request.phase.name),
        "tables": texts([sql.name(table) for table in tables.names]),
        "path": PATH,
        "timeout": text(f"{timeout_s:g}s"),
        "may_be_gone": str(tables.may_be_gone).lower(),
        "sha256": text(request.runbook.sha256),
    }
    if any(reads_rehearsals(each.check) for each in request.checks):
        arguments["files"] = text(files_as_json(request.position.paths))
    written = ",\n  ".join(f"{name} => {value}" for name, value in (arguments | dict(more)).items())
    return f"CALL pipestate.begin_gate(\n  {written})"


def calls_to_evaluate(request: GateRequest, checks: Sequence[SelectedCheck]) -> Iterator[str]:
    """Write the call for each check; the SELECT around a query stands at the first check with its criterion."""
    frames: dict[str, str] = {}
    for number, each in enumerate(checks, start=1):
        frame = each.compiled("postgresql").frame
        yield _call_evaluate(request, each, number, has_frame=frames.get(each.required) != frame)
        frames.setdefault(each.required, frame)  # the server, too, keeps the first of a criterion


def _call_evaluate(request: GateRequest, selected: SelectedCheck, number: int, *, has_frame: bool) -> str:
    """Write the call that evaluates one check; a sign-off is a check on the ledger."""
    check = selected.compiled("postgresql")
    arguments = [
        text(request.revision),
        str(number),
        *(text(each) for each in (selected.check.id, selected.required, selected.source)),
        _query(check.query, f"check_{number}"),
    ]
    if has_frame:
        arguments.append(f"frame => {_query(check.frame, f'verdict_{number}')}")
    if check.shows_own_rows and check.evidence is not None:
        arguments.append("shows_rows => true")
    if selected in request.again:
        arguments.append("again => true")
    if isinstance(selected.check, SignOff):
        arguments.append("is_ours => true")
    if selected.check.level != "block":
        arguments.append(f"level => {text(selected.check.level)}")
    return f"CALL pipestate.evaluate_check({', '.join(arguments)})"


def call_judge(request: GateRequest, checks: int) -> str:
    """Write the call that ends the pass without a lock."""
    return f"CALL pipestate.judge_gate({text(request.revision)}, {checks})"


def call_limit(request: GateRequest, timeout_s: float) -> str:
    """Write the statement that limits the pass under the lock, which is one call."""
    return f"SET LOCAL statement_timeout = '{max(1, len(request.again)) * timeout_s:g}s'"


def call_evaluate_again(request: GateRequest) -> str:
    """Write the call that repeats the required checks under the lock."""
    return f"CALL pipestate.evaluate_again({text(request.revision)})"


def call_pass_gate(request: GateRequest) -> str:
    """Write the call that ends the pass under the lock and sets the token."""
    return f"CALL pipestate.pass_gate({text(request.revision)})"


def text(value: str) -> str:
    r"""Write a literal with the same meaning under any standard_conforming_strings.

    >>> print(text("it's"), text("a\\b\r"))
    'it''s' E'a\\b\r'
    """
    quoted = value.replace("'", "''")
    if "\\" not in value and "\r" not in value:
        return f"'{quoted}'"
    return "E'" + quoted.replace("\\", "\\\\").replace("\r", "\\r") + "'"


def texts(values: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(text(value) for value in values)}]::text[]"


def lines(statement: str) -> str:
    """Write a statement as its lines, each a separate literal: pasted from any line on, none of them runs.

    >>> lines("DROP TABLE a"), lines("SELECT 1\\nFROM b")
    (" 'DROP TABLE a'", "\\n  'SELECT 1',\\n  'FROM b'")
    """
    every = [text(line) for line in statement.split("\n")]
    written = f" {every[0]}" if len(every) == 1 else "\n  " + ",\n  ".join(every)
    return written if len(every) <= MOST_LINES else f" VARIADIC ARRAY[{written}]"


def joined(statement: str) -> str:
    """Write a statement as one expression that contains all of its lines."""
    every = [text(line) for line in statement.split("\n")]
    return (
        every[0]
        if len(every) == 1
        else "pg_catalog.array_to_string(ARRAY[\n  " + ",\n  ".join(every) + "], E'\\n')"
    )


def _query(query: str, tag: str) -> str:
    """Write a check as its runbook has it. Semicolons occur only in texts or comments: no line may leave
    these."""
    if ";" in query:
        return joined(query)
    return sql.dollar(f"\n{query}\n", tag) if query else "''"


# The gate, online: the server's procedures evaluate, judge and record it; Python reads the findings.


NOT_READ_COMMITTED = (
    "the gate of revision {revision} needs READ COMMITTED, and this transaction is {level}: under its "
    "lock it would not see rows that were written meanwhile. Give the engine isolation_level='READ COMMITTED', or "
    "change default_transaction_isolation of the role or the database"
)
AUTOCOMMIT = (
    "the gate of revision {revision} needs a transaction, and this connection commits every statement by "
    "itself: take isolation_level='AUTOCOMMIT' out of env.py"
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


def evaluate_gate(request: GateRequest, tables: Tables) -> Report | None:
    """Begin the gate and evaluate its phase, without a lock; return None if the tables are empty."""
    connection = op.get_bind()
    timeout_s = timeout_of(op.get_context().config)
    reason = force_reason(request.name)
    more = {
        "actor": text(who()),
        "enforce": str(read_settings(op.get_context().config).enforce).lower(),
    } | ({"force": text(plain(reason))} if reason is not None else {})
    started = _now()
    require_usable_ledger(connection)
    with warnings_of(connection) as said:
        sql.emit(call_begin(request, tables, timeout_s, more))
        for line in said():
            warn("%s", plain(line))
    for call in calls_to_evaluate(request, request.evaluated):
        sql.emit(call)
    state = _state(connection)
    return _report(request, request.checks, state, started) if state["filled"] else None


def record_gate(request: GateRequest, report: Report | None, reason: str | None) -> None:
    """Make the server judge and record the pass without a lock."""
    del report, reason
    sql.emit(call_judge(request, len(request.evaluated)))


def evaluate_gate_again(request: GateRequest, tables: Tables, before: Report | None) -> Report | None:
    """Make the server repeat the required checks under the lock."""
    del tables, before
    connection = op.get_bind()
    started = _now()
    sql.emit(call_limit(request, timeout_of(op.get_context().config)))
    sql.emit(call_evaluate_again(request))
    state = _state(connection)
    found = {each["check_id"] for each in state["results"]}
    selected = [each for each in request.checks if each.check.id in found]
    return _report(request, selected, state, started) if selected or state["late"] else None


def finish_gate(request: GateRequest, report: Report | None, reason: str | None, *, whole: bool) -> None:
    """Make the server judge and record the pass under the lock, and set the token."""
    del report, reason, whole
    sql.emit(call_pass_gate(request))


def watch_others(connection: Connection, lock: Sequence[str], revision: str) -> Callable[[], None]:
    """Return the call that makes the server refuse losses of other tables; it remembers them since `pass_gate`."""
    del lock
    call = f"CALL pipestate.require_others({sql.literal(revision)})"
    return partial(_run, connection, call)


def _run(connection: Connection, call: str) -> None:
    connection.exec_driver_sql(call)


def _state(connection: Connection) -> dict[str, Any]:
    """Read the gate's state in this transaction."""
    found = connection.exec_driver_sql(f"SELECT pg_catalog.current_setting('{STATE}', true)").scalar()
    state: dict[str, Any] = json.loads(str(found))
    return state


def _now() -> tuple[datetime, float]:
    return datetime.now(UTC), time.perf_counter()


def _report(
    request: GateRequest,
    selected: Sequence[SelectedCheck],
    state: dict[str, Any],
    started: tuple[datetime, float],
) -> Report:
    """Write the report of a pass, with the rows that show why a check failed."""
    found = {each["check_id"]: each for each in state["results"]}
    return report_of(request, [_verdict_of(each, found.get(each.check.id)) for each in selected], started)


def _verdict_of(selected: SelectedCheck, found: dict[str, Any] | None) -> Verdict:
    if found is None:
        return make_verdict(selected, Outcome.SKIPPED, selected.skipped or "")
    outcome, check = Outcome(found["outcome"]), selected.compiled("postgresql")
    if outcome is Outcome.ERRORED:
        return make_verdict(selected, outcome, str(found["message"]), duration_ms=found["duration_ms"])
    row = (outcome, found["message"], found["rows"], found["row"])
    answer = answer_of(check, ("outcome", "message", "rows", "observed"), row)
    rows = failed_rows(check) if outcome is Outcome.FAILED else NOTHING
    return judged(selected, check, answer, rows, duration_ms=found["duration_ms"])
