"""The request of a gate: the checks of its phase at this revision, the reason that forces it, and the token that it leaves."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from alembic import op
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError

from pipestate.core.errors import PipestateError
from pipestate.database.connections import engine_of
from pipestate.migration import sql
from pipestate.migration.alembic import beside, calls_of, is_upgrade, resolve, resolve_below
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import current_run, run_of
from pipestate.project.graph import Position
from pipestate.project.revision_files import read_revision
from pipestate.runbook.files import runbook_directory, runbooks_at
from pipestate.runbook.model import Check, Level, Phase, Runbook
from pipestate.verify.checks import SelectedCheck, find_phases, select_checks

OTHER_CASE = "{named} does not exist, and {other} does: write the name in the revision as it is spelt there"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that the change needs, and whether they may be absent."""

    names: tuple[str, ...]
    may_be_gone: bool
    also: str | None = None  # a query for more tables to lock


@dataclass(frozen=True, slots=True)
class GateRequest:
    """A phase as it is evaluated now: all of its `checks`, and those that are evaluated `again` under the
    lock.

    `position` is the database's revision, with the files of the migrations: a check may compare those with a
    rehearsal's.
    """

    runbook: Runbook
    phase: Phase
    revision: str
    checks: tuple[SelectedCheck, ...]
    again: tuple[SelectedCheck, ...]
    position: Position

    @property
    def name(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}"

    @property
    def evaluated(self) -> list[SelectedCheck]:
        """List the checks that apply now, warnings included."""
        return [each for each in self.checks if each.skipped is None]

    @property
    def blocking(self) -> list[SelectedCheck]:
        """List the checks that can close the gate now."""
        return [each for each in self.checks if _is_blocking(each)]


def read_request(
    name: str,
    revision: str,
    *,
    tables: Sequence[str] = (),
    recheck: Sequence[str] | None = (),
    must_pass: Sequence[str] = (),
) -> GateRequest:
    """Find the phase; refuse a runbook that does not open this revision, or lacks an item of `must_pass`.

    Without `recheck`, the blocking checks that read one of `tables` are evaluated again under the lock.
    """
    runbook, phase = find_phase(op.get_context(), name)
    phase = phase if phase.opens else replace(phase, opens=(revision,))
    if revision not in phase.opens:
        raise MigrationError(
            f"{runbook.path}:{phase.line}: phase {phase.name} opens {', '.join(phase.opens)}, "
            f"not {revision}: add it to `opens` in the front matter, or name the right phase in the revision"
        )
    position = current_position(revision)
    _refuse_other_branches(op.get_context(), runbook, phase, revision)
    checks = tuple(select_checks(runbook, phase, position, op.get_context().dialect.name))
    if recheck is None:
        again = tuple(each for each in checks if _is_blocking(each) and _reads(each, tables))
    else:
        again = tuple(each for each in checks if each.check.id in recheck)
    request = GateRequest(runbook, phase, revision, checks, again, position)
    _require(request, [*must_pass, *(recheck or ())])
    return request


def _is_blocking(selected: SelectedCheck) -> bool:
    return selected.skipped is None and selected.check.level is Level.BLOCK


def _reads(selected: SelectedCheck, tables: Sequence[str]) -> bool:
    """Say whether a check names one of the tables, comments included."""
    names = [re.escape(table.rpartition(".")[2]) for table in tables]
    words = rf"(?<!\w)(?:{'|'.join(names)})(?!\w)"
    return (
        isinstance(selected.check, Check) and re.search(words, selected.check.sql, re.IGNORECASE) is not None
    )


def _refuse_other_branches(context: MigrationContext, runbook: Runbook, phase: Phase, revision: str) -> None:
    """Refuse a script if a check depends on another branch: a script cannot read that branch's revisions."""
    if not context.as_sql or context.script is None:
        return
    others = beside(context.script, revision)
    for scope in (phase, *phase.checks):
        for named in (scope.from_, scope.until):
            if named in others:
                raise MigrationError(
                    f"{runbook.path}:{scope.line}: phase {phase.name} depends on revision {named} of another "
                    f"branch, and a script for {revision} cannot know whether the database has it: run it "
                    "without --sql"
                )


def _require(request: GateRequest, ids: Sequence[str]) -> None:
    """Refuse a phase in which an item of `ids` is missing, does not block, or does not apply now."""
    there = {each.check.id: each for each in request.checks}
    for id_ in dict.fromkeys(ids):
        found = there.get(id_)
        fault = None
        if found is None:
            fault = "does not have: put it back into the runbook"
        elif found.check.level is not Level.BLOCK:
            fault = "has with `level: warn`, which closes nothing: take that line out"
        elif found.skipped is not None:
            fault = f"does not evaluate now ({found.skipped}): change its `from`, `until` or `dialect`"
        if fault is not None:
            raise MigrationError(
                f"{request.runbook.path}:{request.phase.line}: revision {request.revision} requires {id_}, "
                f"which phase {request.phase.name} {fault}"
            )


def find_phase(context: MigrationContext, name: str) -> tuple[Runbook, Phase]:
    """Find a phase by `runbook/phase` or `phase` beside the project's alembic.ini."""
    directory = runbooks_of(context)
    (found,) = find_phases(runbooks_at(name, directory), [name])
    return found


def runbooks_of(context: MigrationContext) -> Path:
    """Find the directory of the runbooks: beside the configuration, else in the script directory."""
    if context.script is None:
        raise MigrationError(
            "this program runs revisions without Alembic's environment, so no runbook is found: give it to "
            'MigrationContext.configure(..., opts={"script": ScriptDirectory.from_config(config), ...})'
        )
    files = (getattr(context.config, name, None) for name in ("config_file_name", "toml_file_name"))
    config = next((Path(file) for file in files if file and Path(file).is_file()), None)
    return runbook_directory(config, Path(context.script.dir))


def current_position(revision: str) -> Position:
    """Return the database's position from Alembic's context; a script starts below its revision."""
    context = op.get_context()
    assert context.script is not None
    if not context.as_sql:
        return resolve(context.script, tuple(context.get_current_heads()))
    return resolve_below(context.script, revision)


def down_revisions(context: MigrationContext, revision: str) -> tuple[str, ...]:
    """List the revisions directly below this one."""
    assert context.script is not None
    found = context.script.get_revision(revision)
    before = found.down_revision if found is not None else None
    return (before,) if isinstance(before, str) else tuple(before or ())


def running_revision(given: str | None) -> str:
    """Name the revision that runs: the one that the caller gave, else the one that the environment knows."""
    revision = given or current_run().revision
    if not revision:
        raise MigrationError("the gate does not know its revision: write gate(..., revision=revision)")
    return revision


_NAMED = re.compile(r"(?P<gate>[a-z0-9-]+/[a-z0-9-]+):\s*(?P<reason>.*)", re.DOTALL)


def force_reason(gate: str | None = None) -> str | None:
    """Read the reason of `-x force=...`: the one that names this gate, else the one without a name."""
    named, plain = _given()
    return named.get(gate or "", plain)


def _given() -> tuple[dict[str, str], str | None]:
    environment = op.get_context().environment_context
    return read_reasons(environment.get_x_argument() if environment is not None else [])


def read_reasons(given: Iterable[str]) -> tuple[dict[str, str], str | None]:
    """Return the reasons of `-x force=...` by gate, and the one without a gate."""
    named: dict[str, str] = {}
    plain = None
    for option in given:
        name, _, value = option.partition("=")
        if name != "force":
            continue
        found = _NAMED.fullmatch(value)
        reason = found["reason"] if found else value
        if not reason.strip():
            raise MigrationError("-x force= is empty: write the reason that passes the closed gate")
        if found:
            named[found["gate"]] = reason
        else:
            plain = reason
    return named, plain


# The token that a passed gate leaves in its transaction; every destructive helper requires it. The token is a
# transaction-local setting on PostgreSQL: it ends with the transaction, a rollback to a savepoint removes it,
# and a script sees the same one as a migration that runs online. SQLite has no such settings; there the token
# lives beside the migration's context. Destructive helpers require more than the token: they must run in the
# gated code of that gate, and the gate must have locked their table.


SETTING = "pipestate.gate"

NO_GATE = (
    "{what} destroys something, and no gate was passed for it: call it inside `with gate(...)`, "
    "or make the revision a Contract"
)
NOT_LOCKED = (
    "{what} destroys something of {table}, which the gate of this revision has not locked, so its rows were not "
    "checked: name it in gate(..., lock=[...])"
)


def set_token(revision: str) -> None:
    """Set the token of a revision that loses nothing in this database."""
    note_token(revision)
    if _is_setting() and not sql.is_offline():
        sql.emit(f"SELECT set_config('{SETTING}', {sql.literal(revision)}, true)")


def note_token(revision: str, empty: Sequence[str] = ()) -> None:
    """Note that the gate of a revision was passed; on PostgreSQL the server has set the token.

    `empty` names the gate's tables if all were empty and no check was evaluated: it has passed for these
    alone.
    """
    run = current_run()
    run.token = revision
    run.empty_tables |= {*empty}
    run.is_evaluated = bool(run.is_evaluated) or not empty


@contextmanager
def inside(revision: str, locked: Sequence[str]) -> Iterator[None]:
    """Run the code of a passed gate: only here may the locked tables be destroyed."""
    run = current_run()
    run.gated_code = (revision, tuple(locked))
    try:
        yield
    finally:
        run.gated_code = None


def require_gate(what: str, *tables: str) -> None:
    """Refuse an upgrade that drops something before its gate is passed; a downgrade needs no gate."""
    if is_upgrade() is not False:
        require_token(what, *tables)


def require_token(what: str, *tables: str) -> None:
    """Refuse `what` unless its gate has been passed in this transaction, online and in scripts."""
    revision, locked = current_run().gated_code or (None, ())
    if revision is None:
        raise MigrationError(NO_GATE.format(what=what))
    if _is_setting():
        relations = ", ".join(sql.regclass(table) for table in tables)
        sql.emit(
            f"CALL pipestate.require_token({sql.literal(revision)}, ARRAY[{relations}]::regclass[], "
            f"{sql.literal(what)})"
        )
    else:
        for table in set(tables) - set(locked):
            raise MigrationError(NOT_LOCKED.format(what=what, table=table))


def has_token(revision: str) -> bool:
    """Say whether the gate of this revision has been passed; in a script, whether it was written."""
    context = op.get_context()
    if context.as_sql or not _is_setting():
        return run_of(context).token == revision
    found = op.get_bind().exec_driver_sql(f"SELECT current_setting('{SETTING}', true)").scalar()
    return bool(found == revision)


def is_covered(*names: str) -> bool:
    """Say whether a gate of this step was evaluated, or names one of these tables, which was empty."""
    run = current_run()
    return run.is_evaluated is not False or not run.empty_tables.isdisjoint(names)


def _is_setting() -> bool:
    return not engine_of(op.get_context()).IS_FILE


def has_passed(context: MigrationContext, runbook: Runbook, phase: Phase) -> bool:
    """Say whether the gate of this phase was passed in the step that runs."""
    return bool({phase.name, f"{runbook.name}/{phase.name}"} & run_of(context).passed_gates)


# Forcing a closed gate: the reason given for it; one reason applies to one gate.


NOT_ENFORCED = "not enforced: enforce = warn"
SEVERAL = (
    "-x force names no gate, and this run has {gates}: name the forced one, as "
    '-x force="{first}: {reason}"; give -x force once for each'
)


def reason_for(request: GateRequest) -> str | None:
    """Return the reason that forces this gate; refuse one that could apply to several gates of this run."""
    reason = force_reason(request.name)
    if reason is not None and _given()[1] is not None:
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
