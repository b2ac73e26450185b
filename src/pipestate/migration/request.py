"""The request of a gate: the checks of its phase at this revision, and the tables that the change needs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.migration.alembic import beside, resolve, resolve_below
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import current_run
from pipestate.project.graph import Position
from pipestate.runbook.files import runbook_directory, runbooks_at
from pipestate.runbook.model import Check, Level, Phase, Runbook
from pipestate.verify.select import SelectedCheck, find_phases, select_checks

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

    `position` is the database's revision, with the files of the chain: a check may compare those with a
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
    insist: Sequence[str] = (),
) -> GateRequest:
    """Find the phase; refuse a runbook that does not open this revision, or lacks an item of `insist`.

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
    _require(request, [*insist, *(recheck or ())])
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
            fault = f"does not ask now ({found.skipped}): change its `from`, `until` or `dialect`"
        if fault is not None:
            raise MigrationError(
                f"{request.runbook.path}:{request.phase.line}: revision {request.revision} insists on {id_}, "
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
        raise MigrationError(
            "the gate does not know which revision asks it: write gate(..., revision=revision)"
        )
    return revision
