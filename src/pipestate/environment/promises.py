"""What the pages promise: a revision that a page opens asks that gate."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory

from pipestate.chain.read import read_revision
from pipestate.chain.revisions import asks
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.mark import is_marked
from pipestate.errors import PipestateError
from pipestate.gate.passed import has_passed
from pipestate.gate.question import runbooks_of
from pipestate.runbook.find import every_runbook
from pipestate.runbook.model import Phase, Runbook


@dataclass(frozen=True, slots=True)
class Promises:
    """The phases that open a revision, by its id; `missing` says that there is no page where there must be one."""

    phases: Mapping[str, tuple[tuple[Runbook, Phase], ...]]
    missing: str | None = None

    def not_passed(self, migration: MigrationContext, revision: str) -> str:
        """Name the gates that open a revision and that it has not passed in this step; nothing where it needs none."""
        opened = self.phases.get(revision, ())
        marked = not opened or is_marked(revision)
        return ", ".join(
            f"{runbook.name}/{phase.name}"
            for runbook, phase in opened
            if not marked or not has_passed(migration, runbook, phase)
        )

    def require_asked(self, script: Script) -> None:
        """Refuse a revision whose file does not ask a gate that opens it, before anything of it runs."""
        if self.missing is not None:
            raise MigrationError(self.missing)
        opened = self.phases.get(script.revision, ())
        if not opened:
            return
        written = read_revision(Path(script.path))
        for runbook, phase in opened:
            if not asks(written, runbook, phase):
                raise MigrationError(
                    f"{runbook.path}:{phase.line} says that {runbook.name}/{phase.name} opens {script.revision}, but "
                    f"{script.path} does not ask that gate: nothing of it was run. Put its change into "
                    "`with gate(...)`, or make it a Contract"
                )


def read_promises(migration: MigrationContext) -> Promises:
    """Read the pages of the project; one that cannot be read stops the migration before it begins."""
    if migration.script is None:
        return Promises({})
    directory = runbooks_of(migration)
    try:
        runbooks = every_runbook(directory)
        if not runbooks:
            return Promises({}, _missing(migration.script, directory))
    except PipestateError as error:
        raise MigrationError(str(error)) from error
    phases: dict[str, list[tuple[Runbook, Phase]]] = {}
    for runbook in runbooks:
        for phase in runbook.phases:
            for revision in phase.opens:
                phases.setdefault(revision, []).append((runbook, phase))
    return Promises({revision: tuple(found) for revision, found in phases.items()})


def _missing(scripts: ScriptDirectory, directory: Path) -> str | None:
    """Say which revision asks a gate where no page can open one: the pages are somewhere else, or were left behind."""
    for script in scripts.walk_revisions():
        if gates := read_revision(Path(script.path)).gates:
            return (
                f"revision {script.revision} asks the gate {gates[0]}, but there is no page in {directory}, so nobody "
                "knows which revisions wait for one: nothing was run. Put runbooks/ beside the alembic.ini that is used "
                "(a Config that is made in code has none), or into the script directory"
            )
    return None
