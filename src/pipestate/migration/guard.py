"""The guard of an env.py: `guard(context)`, at module level and before `context.configure(...)`.

1. One migration at a time: the lock is taken before Alembic reads the version table.
2. `opens` of a runbook is enforced: a revision that a phase opens must pass that gate. Its file is read
   before the step; the token of the passed gate is compared after it, in the step's transaction. A script must
   contain the gate.
3. The ledger, if there is one, records every applied or reverted revision, and every stamp. If the record
   cannot be written, the revision is refused.
4. Autogenerate leaves out pipestate's own tables and hidden columns.
5. A revision that would lose data is rolled back, unless a gate, a reason or a setting allows it. DDL waits
   for its locks without stopping others (`step`, `patience`, `losses`).
"""

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import Script, ScriptDirectory
from sqlalchemy.exc import SAWarning

from pipestate.core.errors import PipestateError
from pipestate.database.connections import name_of
from pipestate.database.interrupt import listen
from pipestate.ledger.tables import SCHEMA, ledger_on
from pipestate.migration.alembic import (
    Steps,
    calls_of,
    describe_unguarded,
    environment_of,
    is_configured,
    wrap_migrations,
)
from pipestate.migration.commit import begin_for_env_py, require_commit
from pipestate.migration.engine import ENGINES, migration_engine_of
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.losses import guarded_run
from pipestate.migration.recording import record, record_at_end_of_script, record_run
from pipestate.migration.request import has_passed, has_token, runbooks_of
from pipestate.migration.run import describe_undo, read_without_values, run_of
from pipestate.project.find import Calls
from pipestate.project.revision_files import has_gate_of, read_gates
from pipestate.runbook.files import readable_runbooks
from pipestate.runbook.model import Phase, Runbook


@contextmanager
def hold_migration_lock(migration: MigrationContext) -> Iterator[None]:
    """Hold the migration lock around a run; if it is already held, do nothing.

    Inside a transaction that other code began, it is a lock of that transaction and ends with it. Else it is
    a lock of the session, released at the end. On SQLite the file has one writer anyway.
    """
    connection = migration.connection
    run = run_of(migration)
    if connection is None or run.is_locked:
        yield
        return
    run.is_locked = True
    try:
        with migration_engine_of(migration).hold_lock(connection):
            yield
    finally:
        run.is_locked = False


def assert_lock(migration: MigrationContext, step: RevisionStep | None = None) -> None:
    """Refuse to continue if a pooler has given the connection another session, without the lock."""
    del step
    assert migration.connection is not None
    migration_engine_of(migration).assert_lock(migration.connection)


# Hooks around each revision of any project.


Around = Callable[[MigrationContext, RevisionStep, Callable[[], None]], None]


def wrap_steps(migration: MigrationContext, around: Around) -> None:
    """Run `around` in the place of each revision's function, in its transaction.

    It receives that function.
    """

    def wrap(steps: Steps) -> Steps:
        def wrapped(heads: Any, context: Any) -> Iterator[Any]:
            for step in steps(heads, context):
                if isinstance(step, RevisionStep):
                    step.migration_fn = _wrapped(migration, step, around)
                yield step

        return wrapped

    wrap_migrations(migration, wrap)


def _wrapped(migration: MigrationContext, step: RevisionStep, around: Around) -> Callable[..., None]:
    change = step.migration_fn

    @wraps(change)
    def run_step(**arguments: Any) -> None:
        around(migration, step, partial(change, **arguments))

    return run_step


def run_before_steps(
    migration: MigrationContext, check: Callable[[MigrationContext, RevisionStep], None]
) -> None:
    """Run a check at the start of each revision, in its transaction."""

    def checked(migration: MigrationContext, step: RevisionStep, change: Callable[[], None]) -> None:
        check(migration, step)
        change()

    wrap_steps(migration, checked)


def _broken_references(migration: MigrationContext) -> set[tuple[Any, ...]]:
    """Find the dangling references, if the engine does not refuse them by itself."""
    if migration.as_sql or migration.connection is None:
        return set()
    return migration_engine_of(migration).broken_references(migration.connection)


# The guard itself.


TOO_LATE = (
    "guard(context) is called after context.configure(...), so this run was not guarded: {ran}. Put it at the top "
    "of env.py, at module level"
)
OUTSIDE = (
    "guard(context) works only in env.py: a program calls guard(environment) with its EnvironmentContext"
)
ARCHIVE = "pipestate_archive"
# Names of soft-dropped columns, of objects that remain on them, and of their marker.
HIDDEN = re.compile(r"_pipestate_\d+_")


def guard(context: Any, *, since: str | None = None) -> None:
    """Guard each configuration of this env.py; `context` is `alembic.context`, or a program's EnvironmentContext.

    Revisions up to `since` may lose data: for databases that replay old migrations.
    """
    environment = environment_of(context)
    if not isinstance(environment, EnvironmentContext):
        raise MigrationError(OUTSIDE)
    if is_configured(environment):
        raise MigrationError(TOO_LATE.format(ran=describe_unguarded(environment)))
    configure = environment.configure
    read_without_values(environment.config)

    @wraps(configure)
    def configure_guarded(*arguments: Any, **options: Any) -> None:
        given = options.get("include_name")

        def include(name: str | None, type_: Any, parent_names: Any) -> bool:
            ours = not include_name(name, type_, parent_names)
            return not ours and (given is None or given(name, type_, parent_names))

        configure(*arguments, **{**options, "include_name": include})
        migration = environment.get_context()
        watch(environment, migration, since=since)
        if not migration.as_sql and changes_something(environment):
            _run_under_lock(migration)
        if migration.dialect.driver == "psycopg2" and environment.config.cmd_opts is not None:
            listen()

    environment.configure = configure_guarded  # type: ignore[method-assign]


def include_name(name: str | None, type_: str, parent_names: MutableMapping[Any, Any]) -> bool:
    """Leave out the ledger's schema, the archive's, and hidden columns.

    On SQLite it leaves out tables with their prefixes. Give it to `context.configure(include_name=...)`. On
    PostgreSQL it is needed for schemas only with `include_schemas`: by default autogenerate reads the default
    schema alone.
    """
    if name is not None and HIDDEN.match(name):
        return False
    if type_ == "table":  # SQLAlchemy warns of the NOT VALID CHECK on hidden columns
        warnings.filterwarnings("ignore", "Can't validate argument 'dialect_options'", SAWarning)
    if type_ == "schema":
        return name not in (SCHEMA, ARCHIVE)
    if type_ != "table" or name is None:
        return True
    if parent_names.get("schema_name") in (SCHEMA, ARCHIVE):
        return False
    return name not in ledger_on("sqlite").metadata.tables and not name.startswith(f"{ARCHIVE}_")


def watch(environment: EnvironmentContext, migration: MigrationContext, *, since: str | None = None) -> None:
    """Guard the steps of this run and record them; a second call changes nothing.

    A command that only reads needs no runbook. Every database that an env.py configures has a separate
    context and is guarded: Alembic hands it the options of the one before.
    """
    if run_of(migration).is_guarded or not changes_something(environment):
        return
    run_of(migration).is_guarded = True
    gates = read_required_gates(migration)

    guarded = guarded_run(migration, since)
    around: Around | None = None
    if not migration.as_sql:
        from pipestate.migration.step import run_guarded

        around = partial(run_guarded, guarded)
    elif name_of(migration) in ENGINES:
        around = partial(migration_engine_of(migration).write_step, guarded)

    def run_step(migration: MigrationContext, step: RevisionStep, change: Callable[[], None]) -> None:
        run = run_of(migration)
        run.revision, run.part, run.is_autocommit = step.revision.revision, 0, False
        run.committed = []
        run.is_upgrade, run.began = step.is_upgrade, time.monotonic()
        run.empty_tables, run.is_evaluated, run.passed_gates = set(), None, set()
        if step.is_upgrade:
            gates.require_named(step.revision, calls_of(migration.config))
        if not migration.as_sql and migration.connection is not None and run.has_ledger is not False:
            migration_engine_of(migration).require_recordable(migration.connection)

        def body() -> None:
            broken = _broken_references(migration)
            change()
            for table, rowid, parent, _ in _broken_references(migration) - broken:
                raise MigrationError(
                    f"row {rowid} of {table} would point at no row of {parent}, {describe_undo(run)}. "
                    "Foreign keys are off in a migration: delete or change such rows in the revision"
                )
            if step.is_upgrade:
                gates.require_passed(migration, run.revision)

        body() if around is None else around(migration, step, body)

    wrap_steps(migration, run_step)
    if migration.as_sql:
        record_at_end_of_script(migration)
    else:
        migration.on_version_apply_callbacks = (*migration.on_version_apply_callbacks, record)


def changes_something(environment: EnvironmentContext) -> bool:
    """Say whether this run may apply, revert or stamp revisions.

    Alembic's own commands without a destination (`current`, `history`, `check`, `revision`) only read, and
    take no lock. A function of the application may do anything: it is guarded.
    """
    known = environment_of(environment)
    steps = known.context_opts.get("fn")
    own = getattr(steps, "__module__", None) == "alembic.command"
    return "destination_rev" in known.context_opts or (steps is not None and not own)


@dataclass(frozen=True, slots=True)
class RequiredGates:
    """The project's runbooks; `missing` means that a revision names a gate and there is no runbook.

    A faulty one stops only the revisions that it may open.
    """

    runbooks: Sequence[Runbook] = ()
    missing: str | None = None
    faulty: Mapping[Path, PipestateError] = field(default_factory=dict)

    def require_named(self, script: Script, calls: Calls) -> None:
        """Refuse, before its first statement, a revision that omits a gate that opens it from its file."""
        if self.missing is not None:
            raise MigrationError(self.missing)
        named = _named_gates(script)
        for path, error in self.faulty.items():
            from pipestate.runbook.parse import may_open

            if may_open(path, script.revision, named):
                raise MigrationError(
                    f"{error}; this runbook may hold a gate of revision {script.revision}, so nothing of it was run: "
                    f"{calls.pipestate(f'runbook lint {path}')}"
                )
        for runbook, phase in self._gates_of(script):
            if not has_gate_of(named, runbook, phase):
                raise MigrationError(
                    f"{runbook.path}:{phase.line} says that {runbook.name}/{phase.name} opens "
                    f"{script.revision}, but {script.path} does not check that gate: nothing of it was run. "
                    "Put its change into `with gate(...)`, or make it a Contract"
                )

    def require_passed(self, migration: MigrationContext, revision: str) -> None:
        """Refuse a revision unless it has passed each of its gates in this step."""
        script = migration.script.get_revision(revision) if migration.script is not None else None
        opened = self._gates_of(script) if script is not None else []
        passed = not opened or has_token(revision)
        gates = ", ".join(
            f"{runbook.name}/{phase.name}"
            for runbook, phase in opened
            if not passed or not has_passed(migration, runbook, phase)
        )
        if gates:
            ran = "would run, by this script," if migration.as_sql else "ran"
            kept = ": do not use it" if migration.as_sql else f", {describe_undo(run_of(migration))}"
            raise MigrationError(
                f"revision {revision} {ran} without passing the gate {gates}{kept}. Check the gate with "
                "`with gate(...)`, or make it a Contract"
            )

    def _gates_of(self, script: Script) -> list[tuple[Runbook, Phase]]:
        """List the phases that open a revision.

        Without `opens`, a phase opens each revision that names it.
        """
        named = _named_gates(script)
        return [
            (runbook, phase)
            for runbook in self.runbooks
            for phase in runbook.phases
            if script.revision in phase.opens or (not phase.opens and has_gate_of(named, runbook, phase))
        ]


def read_required_gates(migration: MigrationContext) -> RequiredGates:
    """Read the project's runbooks; refuse one that opens an unknown revision."""
    if migration.script is None:
        return RequiredGates()
    directory = runbooks_of(migration)
    runbooks, faulty = readable_runbooks(directory)
    if runbooks or faulty:
        _refuse_unknown(migration.script, runbooks)
        return RequiredGates(runbooks, faulty=faulty)
    for script in migration.script.walk_revisions():
        if gates := _named_gates(script):
            missing = (
                f"revision {script.revision} checks the gate {gates[0]}, but there is no runbook in "
                f"{directory}: nothing was run. Put runbooks/ beside the alembic.ini that is used (a Config "
                "that is made in code has none), or into the script directory"
            )
            return RequiredGates((), missing)
    if directory.is_dir():
        warn("%s holds no runbook: no revision waits for a gate", directory)
    return RequiredGates()


def _refuse_unknown(scripts: ScriptDirectory, runbooks: Sequence[Runbook]) -> None:
    """Refuse `opens` with an unknown revision: the intended one would run without its gate."""
    opened = [(book, phase, each) for book in runbooks for phase in book.phases for each in phase.opens]
    known = {script.revision for script in scripts.walk_revisions()} if opened else set()
    for runbook, phase, revision in opened:
        if revision not in known:
            raise MigrationError(
                f"{runbook.path}:{phase.line}: phase {phase.name} opens {revision}, a revision that the "
                "project does not have: correct `opens` in the front matter, or take it out; nothing was run"
            )


def _named_gates(script: Script) -> tuple[str, ...]:
    try:
        return read_gates(Path(script.path))
    except PipestateError as error:
        raise MigrationError(str(error)) from None


def _run_under_lock(migration: MigrationContext) -> None:
    """Hold the lock around the whole run: before the heads are read, and until the last commit."""
    begin, run = migration.begin_transaction, migration.run_migrations

    def begin_under_lock(_per_migration: bool = False) -> AbstractContextManager[Any]:
        return begin(_per_migration) if _per_migration else begin_and_record()

    @contextmanager
    def begin_and_record() -> Iterator[Any]:
        connection = migration.connection
        lent = connection is not None and connection.in_transaction()
        with hold_migration_lock(migration):
            with begin(False) as transaction:
                yield transaction
            applied = run_of(migration).heads is not None
            record_run(migration, lent=lent)
        if applied:
            require_commit(migration)

    def run_under_lock(**arguments: Any) -> None:
        alone = not run_of(migration).is_locked
        if alone:
            begin_for_env_py(migration)
        with hold_migration_lock(migration):
            run(**arguments)
            assert_lock(migration)
        if alone and run_of(migration).heads is not None:
            require_commit(migration)

    migration.begin_transaction = begin_under_lock  # type: ignore[method-assign]
    migration.run_migrations = run_under_lock  # type: ignore[method-assign]
    run_before_steps(migration, assert_lock)
