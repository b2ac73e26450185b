"""A gate that is asked on a live connection, in the transaction of the change and nowhere else.

1. First pass, without a lock: the whole phase. It fails fast and blocks nobody.
2. `prepare`, if given: long work that needs no lock, and that may commit.
3. The ledger's row of the first pass: after what may commit, and before anybody waits for the lock.
4. The lock; second pass under it: the checks of `recheck`, or the whole phase where the tables were empty
   at first and are not now.
5. The ledger's row of a second pass that was forced or is the only one, and the mark.

Both passes are looks in savepoints: the gate itself never commits. Everybody waits while the lock is held, so
nothing is asked under it that does not matter there.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from alembic import op
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from pipestate.ddl import lock_tables
from pipestate.ddl.failure import MigrationError, told_plainly
from pipestate.ddl.force import force_reason
from pipestate.ddl.mark import set_mark
from pipestate.ddl.notice import tell, warn
from pipestate.ddl.transaction import may_commit
from pipestate.engines.engine import engine_of
from pipestate.gate.calls import calls_of
from pipestate.gate.closed import ALL_BACK, EARLIER_STAY, NOT_OURS, GateClosed
from pipestate.gate.engine import engine_of as gate_engine_of
from pipestate.gate.question import Question
from pipestate.gate.tables import Tables, hold_rows, refuse_absent
from pipestate.gate.timeout import timeout_of
from pipestate.ledger.record import record_report
from pipestate.ledger.state import has_ledger
from pipestate.verify.files import tell_files
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport, gate_of
from pipestate.verify.run import describe, run_check
from pipestate.verify.select import Asked
from pipestate.verify.surroundings import PLANTED_BY_OTHERS, find_planted

MAY_NOT_COMMIT = (
    "revision {revision} prepares its change with work that commits, and {why}: configure env.py with "
    "transaction_per_migration=True and let Alembic begin the transaction"
)
PLANTED = f"{PLANTED_BY_OTHERS}, so the gate of revision {{revision}} cannot be asked: drop them, or take them off the path"
NOT_ASKED = "the gate %s was not asked: there is no row in %s, and so nothing to lose"
# Of a Config's attributes: a callable that is told each revision's report, open or closed.
TELL = "pipestate_tell"


def pass_gate(question: Question, tables: Tables, prepare: Callable[[], None] | None) -> None:
    """Ask the gate as this module's text says; raise GateClosed where it is closed and not forced."""
    connection = op.get_bind()
    gate_engine_of(connection).require_transaction(connection, question.revision)
    _refuse_planted(connection, question.revision)
    if not tables.may_be_gone:
        refuse_absent(connection, tables.names, question.revision)
    filled = hold_rows(connection, tables.names)
    report = _asked(question, question.asked) if filled else None
    if prepare is not None:
        require_may_commit(question.revision)
        prepare()
    if report is not None:
        _record(question, report, whole=True)
    with told_plainly(connection.engine.url):
        lock_tables(*tables.names)
    again = question.again if filled else question.asked
    if again and hold_rows(connection, tables.names):
        _record(question, _asked(question, again), whole=not filled)
    elif not filled:
        tell(NOT_ASKED, question.name, ", ".join(tables.names))
    set_mark(question.revision)


def require(question: Question, checks: Sequence[str]) -> None:
    """Ask some checks of a phase now, without a lock: what a `prepare` must be sure of."""
    gate_engine_of(op.get_bind()).require_transaction(op.get_bind(), question.revision)
    asked = [each for each in question.asked if each.check.id in checks]
    _record(question, _asked(question, asked), whole=False)


def require_may_commit(revision: str) -> None:
    """Refuse work that commits where the transaction is not Alembic's own, or holds something already."""
    why = None if may_commit() else "the transaction here is not Alembic's, one for each revision"
    if why is None and gate_engine_of(op.get_context()).has_written(op.get_bind()):
        why = "something was written in this transaction before it"
    if why is not None:
        raise MigrationError(MAY_NOT_COMMIT.format(revision=revision, why=why))


def what_is_kept(context: MigrationContext) -> str:
    """Say what becomes of the revisions before a closed gate."""
    if context._in_external_transaction:
        return NOT_OURS
    each = context._transaction_per_migration or not context.impl.transactional_ddl
    return EARLIER_STAY if each else ALL_BACK


def _refuse_planted(connection: Connection, revision: str) -> None:
    """Refuse where somebody else could answer in the server's place; a reason turns that into a warning."""
    with told_plainly(connection.engine.url), engine_of(connection).look(connection):
        found = find_planted(connection)
    if not found:
        return
    said = PLANTED.format(found=found, revision=revision)
    if force_reason() is None:
        raise MigrationError(said)
    warn("%s", said)


def _asked(question: Question, asked: Sequence[Asked]) -> Report:
    """Run the checks; raise GateClosed when one does not hold, unless a reason was given."""
    connection, timeout_s = op.get_bind(), timeout_of(op.get_context().config)
    started_at, start = datetime.now(UTC), time.perf_counter()
    with engine_of(connection).look(connection):
        tell_files(connection, asked, question.position.paths)
        verdicts = tuple(run_check(connection, each, timeout_s) for each in asked)
    found = PhaseReport(question.phase.name, gate_of(verdicts), question.phase.opens, verdicts)
    runbook = question.runbook
    report = Report(
        describe(connection, connection.engine.url, question.position),
        started_at,
        round((time.perf_counter() - start) * 1000, 1),
        (RunbookReport(runbook.name, runbook.path, runbook.sha256, (found,)),),
    )
    context = op.get_context()
    if told := context.config and context.config.attributes.get(TELL):
        told(question.revision, report)
    if found.gate is not Gate.OPEN and force_reason() is None:
        raise GateClosed(
            report, calls_of(context.config), revision=question.revision, kept=what_is_kept(context)
        )
    return report


def _record(question: Question, report: Report, *, whole: bool) -> None:
    """Write the look at the whole phase, and every forced one, into the ledger."""
    ((_, phase),) = report.phases()
    forced = phase.gate is not Gate.OPEN
    reason = force_reason() if forced else None
    connection = op.get_bind()
    with told_plainly(connection.engine.url):
        keeps = has_ledger(connection)
        if keeps and (whole or forced):
            event = "force" if forced else "gate"
            record_report(connection, report, event=event, revision=question.revision, reason=reason)
    if forced:
        kept = "" if keeps else "; this database has no ledger that would keep the reason"
        warn("the gate %s is closed, and forced: %s%s", question.name, reason, kept)
