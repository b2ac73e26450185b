"""The gate of a revision: its phase of the runbook, asked inside the migration itself.

    with gate("sites-consolidation/readiness", lock=["site_progress"],
              recheck=["recent-site-progress-writes"], insist=["backup-taken", "soak"]):
        archive_table("site_progress")

1. Where the tables to be locked hold no rows there is nothing to lose: the gate is open. One that does
   not exist is a wrong name, and refused, unless the revision says `may_be_gone`.
2. The whole phase, without a lock, on one snapshot: fails fast and blocks nobody.
3. `prepare`, if given: long work that needs no lock.
4. The lock that the change needs; under it, and in its transaction, the checks named in `recheck`,
   those whose answer a late write could change.

A closed gate raises GateClosed; `-x force="reason"` goes through, and the ledger keeps the reason.
Offline the same is written as DO blocks in the transaction of the change.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from alembic import op
from sqlalchemy import Connection, inspect

from pipestate import db
from pipestate.chain.position import Position
from pipestate.config import shown
from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError, heard_on_stderr, told_plainly
from pipestate.ddl.force import force_reason
from pipestate.ddl.locks import lock_tables
from pipestate.gate import script
from pipestate.gate.position import resolve
from pipestate.ledger.record import record_gate
from pipestate.runbook.find import every_runbook, named_runbook, runbook_directory
from pipestate.runbook.model import Phase, Runbook
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport, gate_of
from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_check
from pipestate.verify.select import Asked, ask, find_phases

log = logging.getLogger("pipestate")


class GateClosed(MigrationError):
    """A revision that must not run yet. `report` says why; Alembic ends without a traceback."""

    exit_code = 1

    def __init__(self, report: Report) -> None:
        self.report = report
        ((runbook, phase),) = report.phases()
        wrong = [verdict for verdict in phase.checks if verdict.closes]
        lines = [f"  {v.check_id}: {v.message} ({v.source})" for v in wrong]
        super().__init__(
            f"the gate {runbook.name}/{phase.name} is closed: {len(wrong)} of {len(phase.checks)} checks do not "
            "hold, so nothing of this revision was done\n" + "\n".join(lines) + "\n"
            f"To look closer: pipestate verify {runbook.name} --phase {phase.name}"
        )


@contextmanager
def gate(
    phase: str,
    *,
    lock: Sequence[str],
    recheck: Sequence[str] = (),
    insist: Sequence[str] = (),
    prepare: Callable[[], None] | None = None,
    may_be_gone: bool = False,
) -> Iterator[None]:
    """Run the body only while the phase's gate is open; see the module's text for how."""
    config = op.get_context().config
    # Only Alembic's own command line sets `cmd` there.
    with heard_on_stderr(on_command_line=config is not None and hasattr(config.cmd_opts, "cmd")):
        _open(phase, lock, recheck, insist, prepare, may_be_gone=may_be_gone)
    yield


def _open(
    phase: str,
    lock: Sequence[str],
    recheck: Sequence[str],
    insist: Sequence[str],
    prepare: Callable[[], None] | None,
    *,
    may_be_gone: bool,
) -> None:
    if isinstance(lock, str) or not lock:
        raise MigrationError(f"lock={lock!r}: give a list of the tables that the change needs, at least one")
    asked = _asked(phase, insist=[*insist, *recheck])
    again = [each for each in asked if each.check.id in recheck]
    if sql.is_offline():
        sql_refuses_offline_on_sqlite()
        script.write(asked, lock, may_be_gone=may_be_gone)
        if prepare is not None:
            prepare()
            script.write(asked, lock, may_be_gone=may_be_gone)
        lock_tables(*lock)
        script.write(again, lock, may_be_gone=may_be_gone)
        return
    if not may_be_gone:
        _refuse_absent(lock)
    filled = _hold_rows(lock)
    if filled:
        _pass(asked, _on_one_snapshot, whole=True)
    if prepare is not None:
        prepare()
    with told_plainly(op.get_bind().engine.url):
        lock_tables(*lock)
    if _hold_rows(lock):
        # Rows that came after the first look were never judged: then everything is asked now.
        _pass(again if filled else asked, _under_the_lock, whole=not filled)


def require(phase: str, checks: Sequence[str]) -> None:
    """Ask these checks of a phase now, without a lock: what a `prepare` must be sure of."""
    asked = [each for each in _asked(phase, insist=checks) if each.check.id in checks]
    if sql.is_offline():
        script.write(asked, ())
    else:
        _pass(asked, _on_one_snapshot)


def sql_refuses_offline_on_sqlite() -> None:
    if sql.is_sqlite():
        raise MigrationError(
            "a gate looks at the rows before anything is dropped, which a script for SQLite cannot: "
            "run it without --sql"
        )


# --- What is asked ---------------------------------------------------------------------------------


def _asked(name: str, *, insist: Sequence[str]) -> list[Asked]:
    """The checks of the phase at this revision; a runbook edited down does not open the gate."""
    runbook, phase = _find(name)
    revision = sql.current_revision()
    if revision not in phase.opens:
        raise MigrationError(
            f"{runbook.path}:{phase.line}: phase {phase.name} opens {', '.join(phase.opens) or 'no revision'}, "
            f"not {revision}: add it to `opens` in the front matter, or name the right phase in the revision"
        )
    missing = sorted(set(insist) - {check.id for check in phase.checks})
    if missing:
        raise MigrationError(
            f"{runbook.path}:{phase.line}: revision {revision} insists on {', '.join(missing)}, which phase "
            f"{phase.name} does not have: put it back into the runbook"
        )
    return ask(runbook, phase, _revisions(), op.get_context().dialect.name)


def _find(name: str) -> tuple[Runbook, Phase]:
    context = op.get_context()
    assert context.script is not None
    files = (getattr(context.config, attribute, None) for attribute in ("config_file_name", "toml_file_name"))
    config = next((Path(file) for file in files if file and Path(file).is_file()), None)
    directory = runbook_directory(config, Path(context.script.dir))
    runbook, slash, _ = name.partition("/")
    books = [named_runbook(runbook, directory)] if slash else every_runbook(directory)
    (found,) = find_phases(books, name)
    return found


def _revisions() -> Position:
    context = op.get_context()
    assert context.script is not None
    if context.as_sql:
        revision = context.script.get_revision(sql.current_revision())
        before = revision.down_revision if revision is not None else None
        return resolve(context.script, (before,) if isinstance(before, str) else tuple(before or ()))
    return resolve(context.script, tuple(context.get_current_heads()))


def _refuse_absent(tables: Sequence[str]) -> None:
    """A misspelt name would look like a table without rows, and open the gate."""
    there = _existing(tables)
    for table in tables:
        if table not in there:
            raise MigrationError(script.ABSENT.format(revision=sql.current_revision(), table=table))


def _hold_rows(tables: Sequence[str]) -> bool:
    connection = op.get_bind()
    query = "SELECT EXISTS (SELECT 1 FROM {})"
    return any(
        connection.exec_driver_sql(query.format(sql.name(table))).scalar() for table in _existing(tables)
    )


def _existing(tables: Sequence[str]) -> list[str]:
    """Those that exist, `schema.table` included."""
    known = inspect(op.get_bind())
    parts = [(table, *table.rpartition(".")) for table in tables]
    return [table for table, schema, _, name in parts if known.has_table(name, schema=schema or None)]


# --- The two passes --------------------------------------------------------------------------------


def _pass(asked: Sequence[Asked], look: Callable[[Sequence[Asked]], Report], *, whole: bool = False) -> None:
    """Look, and stop where it is closed. The ledger keeps the look at the whole phase, and every force."""
    if not asked:
        return
    report = look(asked)
    ((runbook, phase),) = report.phases()
    reason = force_reason()
    if phase.gate is not Gate.OPEN and reason is None:
        raise GateClosed(report)
    connection = op.get_bind()
    forced = phase.gate is not Gate.OPEN
    has_ledger = inspect(connection).has_table("pipestate_run")
    if has_ledger and (whole or forced):
        record_gate(connection, report, revision=sql.current_revision(), reason=reason)
    if forced:
        kept = "" if has_ledger else "; this database has no ledger that would keep the reason"
        log.warning("the gate %s/%s is closed, and forced: %s%s", runbook.name, phase.name, reason, kept)


def _on_one_snapshot(asked: Sequence[Asked]) -> Report:
    """A revision is READ COMMITTED, so this pass has a transaction of its own before it."""
    if sql.is_sqlite():
        return _under_the_lock(asked)
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return _report(connection, asked)
        finally:
            connection.exec_driver_sql("ROLLBACK")


def _under_the_lock(asked: Sequence[Asked]) -> Report:
    """In the transaction of the change; read-only until the savepoint is gone, the lock stays."""
    connection = op.get_bind()
    if sql.is_sqlite():
        with db.read_only(connection):
            return _report(connection, asked)
    connection.exec_driver_sql("SAVEPOINT pipestate_gate; SET LOCAL transaction_read_only = on")
    try:
        return _report(connection, asked)
    finally:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT pipestate_gate; RELEASE pipestate_gate")


def _report(connection: Connection, asked: Sequence[Asked]) -> Report:
    started_at, start = datetime.now(UTC), time.perf_counter()
    verdicts = tuple(run_check(connection, each, DEFAULT_TIMEOUT_S) for each in asked)
    runbook, phase = asked[0].runbook, asked[0].phase
    found = PhaseReport(phase.name, gate_of(verdicts), phase.opens, verdicts)
    info = DatabaseInfo(
        shown(connection.engine.url), connection.dialect.name, "", sql.current_revision(), None
    )
    return Report(
        info,
        started_at,
        (time.perf_counter() - start) * 1000,
        (RunbookReport(runbook.name, runbook.path, runbook.sha256, (found,)),),
    )
