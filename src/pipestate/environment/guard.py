"""One line for anybody's env.py, at module level and before `context.configure(...)`: `guard(context)`.

1. One migration at a time: the lock is taken before Alembic reads where the database stands.
2. `opens` is a promise: a revision that a page opens must ask that gate. Its file is read before the step, and
   the mark of the passed gate is asked after it, in the step's own transaction.
3. Every revision that is applied or taken back, and every stamp, goes into the ledger, where there is one.
4. Autogenerate leaves pipestate's own tables alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.ddl.failure import MigrationError
from pipestate.ddl.mark import is_marked
from pipestate.environment.alone import alone
from pipestate.environment.names import include_name
from pipestate.environment.options import read_without_values
from pipestate.environment.promises import Promises, read_promises
from pipestate.environment.steps import BEGAN, wrap_steps
from pipestate.interrupt import listen
from pipestate.ledger.record import record_event
from pipestate.ledger.state import look

_WATCHED = "pipestate_watched"


def guard(context: Any) -> None:
    """Guard whatever this env.py configures; `context` is `alembic.context`."""
    environment: EnvironmentContext = getattr(context, "_proxy", context)
    configure = environment.configure
    read_without_values(environment.config)

    @wraps(configure)
    def configure_guarded(*arguments: Any, **options: Any) -> None:
        configure(*arguments, **_without_own_tables(options))
        migration = environment.get_context()
        if not migration.as_sql and changes_something(environment):
            _run_alone(migration)
        if migration.dialect.driver == "psycopg2" and environment.config.cmd_opts is not None:
            listen()
        watch(environment, migration)

    environment.configure = configure_guarded  # type: ignore[method-assign]


def watch(environment: EnvironmentContext, migration: MigrationContext) -> None:
    """Keep the promises of the pages and record what is applied; a second call changes nothing.

    A command that only looks reads no page.
    """
    if migration.opts.get(_WATCHED) or not changes_something(environment):
        return
    migration.opts[_WATCHED] = True
    promises = read_promises(migration)
    wrap_steps(migration, before=_require_asked(promises), after=_require_marked(promises))
    if not migration.as_sql:
        migration.on_version_apply_callbacks = (*migration.on_version_apply_callbacks, _record)


def changes_something(environment: EnvironmentContext) -> bool:
    """Say whether this command has a destination: `current`, `history` and `check` have none, and do not queue."""
    known: EnvironmentContext = getattr(environment, "_proxy", environment)
    return "destination_rev" in known.context_opts


def _without_own_tables(options: dict[str, Any]) -> dict[str, Any]:
    given = options.get("include_name")

    def include(name: str | None, type_: Any, parent_names: Any) -> bool:
        return include_name(name, type_, parent_names) and (given is None or given(name, type_, parent_names))

    return {**options, "include_name": include}


def _require_asked(promises: Promises) -> Callable[[MigrationContext, RevisionStep], None]:
    def before(migration: MigrationContext, step: RevisionStep) -> None:
        del migration
        if step.is_upgrade:
            promises.require_asked(step.revision)

    return before


def _require_marked(promises: Promises) -> Callable[[MigrationContext, RevisionStep], None]:
    def after(migration: MigrationContext, step: RevisionStep) -> None:
        revision = step.revision.revision
        gates = promises.gates_of(revision)
        if step.is_upgrade and gates and not migration.as_sql and not is_marked(revision):
            raise MigrationError(
                f"revision {revision} ran without passing the gate {gates}, so it is rolled back: ask the gate with "
                "`with gate(...)`, or make it a Contract"
            )

    return after


def _run_alone(migration: MigrationContext) -> None:
    """Hold the lock around the whole run: before the heads are read, and until the last commit."""
    begin, run = migration.begin_transaction, migration.run_migrations

    def begin_alone(_per_migration: bool = False) -> AbstractContextManager[Any]:
        return begin(_per_migration) if _per_migration else _begun(migration, begin)

    def run_alone(**arguments: Any) -> None:
        with alone(migration):
            run(**arguments)

    migration.begin_transaction = begin_alone  # type: ignore[method-assign]
    migration.run_migrations = run_alone  # type: ignore[method-assign]


@contextmanager
def _begun(migration: MigrationContext, begin: Callable[..., Any]) -> Iterator[Any]:
    with alone(migration), begin(False) as transaction:
        yield transaction


def _record(*, ctx: MigrationContext, step: Any, heads: Any, run_args: Mapping[str, Any]) -> None:
    """Write an applied revision into the ledger (Alembic's `on_version_apply`)."""
    del heads, run_args
    assert ctx.connection is not None
    state = look(ctx.connection)
    if not state.installed or state.missing:
        return  # one that is older is brought up to date by what says so, not by every migration
    event = "stamp" if step.is_stamp else "upgrade" if step.is_upgrade else "downgrade"
    revision = " ".join(step.up_revision_ids)
    known, began = ctx.opts.get(BEGAN, ("", 0.0))
    duration = round((time.monotonic() - began) * 1000, 1) if known == revision else None
    record_event(ctx.connection, event, revision=revision, duration_ms=duration)
