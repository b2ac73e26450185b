"""The reason to force a closed gate: `-x force="reason"`, or `-x force="orders/readiness: reason"` for one
gate."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alembic import op
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError

from pipestate.core.errors import PipestateError
from pipestate.database.connections import engine_of
from pipestate.migration import sql
from pipestate.migration.alembic import calls_of, is_upgrade
from pipestate.migration.failure import MigrationError
from pipestate.migration.request import GateRequest, down_revisions, find_phase
from pipestate.migration.run import current_run, run_of
from pipestate.project.revision_files import read_revision
from pipestate.runbook.model import Phase, Runbook

_NAMED = re.compile(r"(?P<gate>[a-z0-9-]+/[a-z0-9-]+):\s*(?P<reason>.*)", re.DOTALL)


def force_reason(gate: str | None = None) -> str | None:
    """Read the reason of `-x force=...`: the one that names this gate, else the one without a name."""
    named, plain = _given()
    return named.get(gate or "", plain)


def plain_reason() -> str | None:
    """Read a reason that names no gate."""
    return _given()[1]


def _given() -> tuple[dict[str, str], str | None]:
    """Return the reasons by gate, and the one without a gate."""
    environment = op.get_context().environment_context
    given = environment.get_x_argument() if environment is not None else []
    named: dict[str, str] = {}
    plain = None
    for option in given:
        name, _, value = option.partition("=")
        if name != "force":
            continue
        found = _NAMED.fullmatch(value)
        reason = found["reason"] if found else value
        if not reason.strip():
            raise MigrationError("-x force= is empty: it takes a reason to go through a closed gate")
        if found:
            named[found["gate"]] = reason
        else:
            plain = reason
    return named, plain


# The mark that a passed gate leaves in its transaction; every destructive helper requires it. The mark is a
# transaction-local setting on PostgreSQL: it ends with the transaction, a rollback to a savepoint removes it,
# and a script sees the same one as a migration that runs online. SQLite has no such settings; there the mark
# lives beside the migration's context. Destructive helpers require more than the mark: they must run in the
# body of that gate, and the gate must have locked their table.


SETTING = "pipestate.gate"

NO_GATE = (
    "{what} destroys something, and no gate was asked for it: call it inside `with gate(...)`, "
    "or make the revision a Contract"
)
NO_DIRECTION = (
    "; a downgrade needs none, but it is not Alembic's own command that runs this one: `guard(context)` in "
    "env.py tells which way a revision goes"
)
NOT_LOCKED = (
    "{what} destroys something of {table}, which the gate of this revision has not locked, so its rows were "
    "not looked at: name it in gate(..., lock=[...])"
)


def set_mark(revision: str) -> None:
    """Set the mark of a revision that loses nothing in this database."""
    note_mark(revision)
    if _is_setting() and not sql.is_offline():
        sql.emit(f"SELECT set_config('{SETTING}', {sql.literal(revision)}, true)")


def note_mark(revision: str, empty: Sequence[str] = ()) -> None:
    """Note that the gate of a revision was passed; on PostgreSQL the server has set the mark.

    `empty` names the gate's tables if all were empty and no check was evaluated: it has passed for these
    alone.
    """
    run = current_run()
    run.marked = revision
    run.empty_tables |= {*empty}
    run.is_evaluated = bool(run.is_evaluated) or not empty


@contextmanager
def inside(revision: str, locked: Sequence[str]) -> Iterator[None]:
    """Run the body of a passed gate: only here may the locked tables be destroyed."""
    run = current_run()
    run.gate_body = (revision, tuple(locked))
    try:
        yield
    finally:
        run.gate_body = None


def require_gate(what: str, *tables: str) -> None:
    """Refuse an upgrade that drops something before its gate is passed; a downgrade needs no gate."""
    upward = is_upgrade()
    if upward is not False:
        require_mark(what, *tables, more=NO_DIRECTION if upward is None else "")


def require_mark(what: str, *tables: str, more: str = "") -> None:
    """Refuse `what` unless its gate has been passed in this transaction, online and in scripts.

    `more` ends the message.
    """
    revision, locked = current_run().gate_body or (None, ())
    message = NO_GATE.format(what=what) + more
    if revision is None:
        raise MigrationError(message)
    if _is_setting():
        relations = ", ".join(sql.regclass(table) for table in tables)
        sql.emit(
            f"CALL pipestate.require_mark({sql.literal(revision)}, ARRAY[{relations}]::regclass[], "
            f"{sql.literal(what)})"
        )
    else:
        for table in set(tables) - set(locked):
            raise MigrationError(NOT_LOCKED.format(what=what, table=table))


def is_marked(revision: str) -> bool:
    """Say whether the gate of this revision has been passed; in a script, whether it was written."""
    context = op.get_context()
    if context.as_sql or not _is_setting():
        return run_of(context).marked == revision
    found = op.get_bind().exec_driver_sql(f"SELECT current_setting('{SETTING}', true)").scalar()
    return bool(found == revision)


def is_covered(*names: str) -> bool:
    """Say whether a gate of this step was evaluated, or names one of these tables, which was empty."""
    run = current_run()
    return run.is_evaluated is not False or not run.empty_tables.isdisjoint(names)


def _is_setting() -> bool:
    return engine_of(op.get_context()).HAS_SETTINGS


def has_passed(context: MigrationContext, runbook: Runbook, phase: Phase) -> bool:
    """Say whether the gate of this phase was passed in the step that runs."""
    return bool({phase.name, f"{runbook.name}/{phase.name}"} & run_of(context).passed_gates)


# Forcing a closed gate: the reason given for it; one reason applies to one gate.


NOT_ENFORCED = "not enforced: enforce = warn"
SEVERAL = (
    "-x force names no gate, and this run meets {gates}: say which one is forced, as "
    '-x force="{first}: {reason}"; give -x force once for each'
)


def reason_for(request: GateRequest) -> str | None:
    """Return the reason that forces this gate; refuse one that could apply to several gates of this run."""
    reason = force_reason(request.name)
    if reason is not None and plain_reason() is not None:
        run = current_run()
        run.forced = run.forced or request.name
        others = {run.forced, *_later_gates(request.revision)} - {request.name}
        if others:
            gates = " and ".join(sorted({request.name, *others}))
            raise MigrationError(SEVERAL.format(gates=gates, first=request.name, reason=reason))
    return reason


def undo(request: GateRequest) -> str:
    """Write the command that reverts a forced revision."""
    context = op.get_context()
    before = down_revisions(context, request.revision)
    return calls_of(context.config).alembic(f"downgrade {before[0] if len(before) == 1 else '-1'}")


def _later_gates(revision: str) -> set[str]:
    """Name the gates of later revisions in the same run, as far as their files name them."""
    context = op.get_context()
    environment = context.environment_context
    if environment is None or context.script is None:
        return set()
    try:
        end = environment.get_revision_argument()
        later = list(context.script.iterate_revisions(end, revision))
        named = {name for each in later for name in read_revision(Path(each.path)).gates}
        phases = [find_phase(context, name) for name in named]
    except (CommandError, PipestateError, KeyError, OSError):
        return set()
    return {f"{runbook.name}/{phase.name}" for runbook, phase in phases}
