"""One line for anybody's env.py, at module level and before `context.configure(...)`: `guard(context)`.

1. One migration at a time: the lock is taken before Alembic reads where the database stands.
2. `opens` is a promise: a revision that a page opens must ask that gate. Its file is read before the step, and
   the mark of the passed gate is asked after it, in the step's own transaction; in a script, whether it was written.
3. Every revision that is applied or taken back, and every stamp, goes into the ledger, where there is one. Where it
   could not be written down, nothing of it runs.
4. Autogenerate leaves pipestate's own tables alone.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.ddl.failure import MigrationError
from pipestate.environment.migration_lock import assert_lock, hold_migration_lock
from pipestate.environment.options import read_without_values
from pipestate.environment.own_tables import include_name
from pipestate.environment.promises import Promises, read_promises
from pipestate.environment.recording import record, require_recordable
from pipestate.environment.steps import wrap_steps
from pipestate.gate.passed import forget_passed
from pipestate.interrupt import listen

_WATCHED = "pipestate_watched"
TOO_LATE = (
    "guard(context) stands behind context.configure(...), where it guards nothing: put it at the top of env.py, at "
    "module level; nothing was done"
)


def guard(context: Any) -> None:
    """Guard whatever this env.py configures; `context` is `alembic.context`."""
    environment: EnvironmentContext = getattr(context, "_proxy", context)
    if environment._migration_context is not None:
        raise MigrationError(TOO_LATE)
    configure = environment.configure
    read_without_values(environment.config)

    @wraps(configure)
    def configure_guarded(*arguments: Any, **options: Any) -> None:
        configure(*arguments, **_without_own_tables(options))
        migration = environment.get_context()
        if not migration.as_sql and changes_something(environment):
            _run_under_lock(migration)
        if migration.dialect.driver == "psycopg2" and environment.config.cmd_opts is not None:
            listen()
        watch(environment, migration)

    environment.configure = configure_guarded  # type: ignore[method-assign]


def watch(environment: EnvironmentContext, migration: MigrationContext) -> None:
    """Keep the promises of the pages and record what is applied; a second call changes nothing.

    A command that only looks reads no page. Every database that an env.py configures has a context of its own, and is
    watched: its options are those of the one before.
    """
    if _WATCHED in vars(migration) or not changes_something(environment):
        return
    vars(migration)[_WATCHED] = True
    promises = read_promises(migration)
    wrap_steps(migration, before=_require_ready(promises), after=_require_marked(promises))
    if not migration.as_sql:
        migration.on_version_apply_callbacks = (*migration.on_version_apply_callbacks, record)


def changes_something(environment: EnvironmentContext) -> bool:
    """Say whether this run may apply, take back or stamp revisions.

    Alembic's own commands without a destination (`current`, `history`, `check`, `revision`) only look, and do not
    queue. What a function of somebody else's does, nobody knows: it is guarded.
    """
    known: EnvironmentContext = getattr(environment, "_proxy", environment)
    steps = known.context_opts.get("fn")
    own = getattr(steps, "__module__", None) == "alembic.command"
    return "destination_rev" in known.context_opts or (steps is not None and not own)


def _without_own_tables(options: dict[str, Any]) -> dict[str, Any]:
    given = options.get("include_name")

    def include(name: str | None, type_: Any, parent_names: Any) -> bool:
        return include_name(name, type_, parent_names) and (given is None or given(name, type_, parent_names))

    return {**options, "include_name": include}


def _require_ready(promises: Promises) -> Callable[[MigrationContext, RevisionStep], None]:
    def before(migration: MigrationContext, step: RevisionStep) -> None:
        forget_passed(migration)
        if step.is_upgrade:
            promises.require_asked(step.revision)
        require_recordable(migration)

    return before


def _require_marked(promises: Promises) -> Callable[[MigrationContext, RevisionStep], None]:
    def after(migration: MigrationContext, step: RevisionStep) -> None:
        revision = step.revision.revision
        if step.is_upgrade and (gates := promises.not_passed(migration, revision)):
            went = "would run, by this script," if migration.as_sql else "ran"
            kept = "do not use it" if migration.as_sql else "what it has not committed itself is rolled back"
            raise MigrationError(
                f"revision {revision} {went} without passing the gate {gates}: {kept}. Ask the gate with "
                "`with gate(...)`, or make it a Contract"
            )

    return after


def _run_under_lock(migration: MigrationContext) -> None:
    """Hold the lock around the whole run: before the heads are read, and until the last commit."""
    begin, run = migration.begin_transaction, migration.run_migrations

    def begin_under_lock(_per_migration: bool = False) -> AbstractContextManager[Any]:
        return begin(_per_migration) if _per_migration else _begun(migration, begin)

    def run_under_lock(**arguments: Any) -> None:
        with hold_migration_lock(migration):
            run(**arguments)
            assert_lock(migration)

    migration.begin_transaction = begin_under_lock  # type: ignore[method-assign]
    migration.run_migrations = run_under_lock  # type: ignore[method-assign]
    wrap_steps(migration, before=assert_lock)


@contextmanager
def _begun(migration: MigrationContext, begin: Callable[..., Any]) -> Iterator[Any]:
    with hold_migration_lock(migration), begin(False) as transaction:
        yield transaction
