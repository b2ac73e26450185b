"""What a gate asks: the checks of its phase at this revision, and what the revision insists on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.chain.position import Position
from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.gate.position import beside, resolve, resolve_below
from pipestate.runbook.find import runbook_directory, runbooks_at
from pipestate.runbook.model import Check, Level, Phase, Runbook, SignOff
from pipestate.verify.select import Asked, ask, find_phases


@dataclass(frozen=True, slots=True)
class Question:
    """A phase as it is asked now: `asked` all of it, `again` what is asked once more under the lock.

    `position` is where the database stands, with the files of the chain: a check may want to know what was rehearsed.
    """

    runbook: Runbook
    phase: Phase
    revision: str
    asked: tuple[Asked, ...]
    again: tuple[Asked, ...]
    position: Position

    @property
    def name(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}"


def read_question(
    name: str,
    revision: str,
    *,
    recheck: Sequence[str] = (),
    insist: Sequence[str] = (),
    sign_offs: Sequence[str] = (),
) -> Question:
    """Find the phase; refuse a page that does not open this revision, or that was edited down."""
    runbook, phase = find_phase(op.get_context(), name)
    if revision not in phase.opens:
        raise MigrationError(
            f"{runbook.path}:{phase.line}: phase {phase.name} opens {', '.join(phase.opens) or 'no revision'}, "
            f"not {revision}: add it to `opens` in the front matter, or name the right phase in the revision"
        )
    position = current_position(revision)
    _refuse_other_branches(op.get_context(), runbook, phase, revision)
    asked = tuple(ask(runbook, phase, position, op.get_context().dialect.name))
    again = tuple(each for each in asked if each.check.id in recheck)
    question = Question(runbook, phase, revision, asked, again, position)
    _require(question, [*insist, *recheck], Check)
    _require(question, sign_offs, SignOff)
    return question


def _refuse_other_branches(context: MigrationContext, runbook: Runbook, phase: Phase, revision: str) -> None:
    """Refuse a script where a check depends on a branch of which a script cannot know where it stands."""
    if not context.as_sql or context.script is None:
        return
    others = beside(context.script, revision)
    for scope in (phase, *phase.checks):
        for named in (scope.from_, scope.until):
            if named in others:
                raise MigrationError(
                    f"{runbook.path}:{scope.line}: phase {phase.name} depends on revision {named} of another branch, and a "
                    f"script for {revision} cannot know whether the database has it: run it without --sql"
                )


def _require(question: Question, ids: Sequence[str], kind: type[Check] | type[SignOff]) -> None:
    """Refuse where one that is insisted on is missing, does not block, or is not asked now."""
    there = {each.check.id: each for each in question.asked}
    what = "sign-off" if kind is SignOff else "check"
    for id_ in dict.fromkeys(ids):
        found = there.get(id_)
        fault = None
        if found is None:
            fault = "does not have: put it back into the runbook"
        elif not isinstance(found.check, kind):
            fault = f"has, but not as a {what}: make it one again"
        elif found.check.level is not Level.BLOCK:
            fault = "has with `level: warn`, which closes nothing: take that line out"
        elif found.skipped is not None:
            fault = f"does not ask now ({found.skipped}): change its `from`, `until` or `dialect`"
        if fault is not None:
            raise MigrationError(
                f"{question.runbook.path}:{question.phase.line}: revision {question.revision} insists on the {what} "
                f"{id_}, which phase {question.phase.name} {fault}"
            )


def find_phase(context: MigrationContext, name: str) -> tuple[Runbook, Phase]:
    """Find a phase by `runbook/phase` or `phase` beside the project's alembic.ini."""
    directory = runbooks_of(context)
    (found,) = find_phases(runbooks_at(name, directory), [name])
    return found


def runbooks_of(context: MigrationContext) -> Path:
    """Find the directory of the pages: beside the configuration, else in the script directory."""
    assert context.script is not None
    files = (getattr(context.config, name, None) for name in ("config_file_name", "toml_file_name"))
    config = next((Path(file) for file in files if file and Path(file).is_file()), None)
    return runbook_directory(config, Path(context.script.dir))


def current_position(revision: str) -> Position:
    """Say where the database stands: Alembic's own context knows it; a script starts below its revision."""
    context = op.get_context()
    assert context.script is not None
    if not context.as_sql:
        return resolve(context.script, tuple(context.get_current_heads()))
    return resolve_below(context.script, revision)


def down_revisions(context: MigrationContext, revision: str) -> tuple[str, ...]:
    """List what a revision stands on directly."""
    assert context.script is not None
    found = context.script.get_revision(revision)
    before = found.down_revision if found is not None else None
    return (before,) if isinstance(before, str) else tuple(before or ())


def running_revision(given: str | None) -> str:
    """Name the revision that runs: the one that the caller gave, else the one that the environment knows."""
    revision = given or sql.current_revision()
    if not revision:
        raise MigrationError(
            "the gate does not know which revision asks it: write gate(..., revision=revision)"
        )
    return revision
