"""Alembic's private names. Only this module uses them.

A test names each one that a new Alembic has changed.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from alembic import op
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import HeadMaintainer, MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Table

from pipestate.core.errors import ConfigError
from pipestate.core.text import listed
from pipestate.database.connections import engine_of
from pipestate.migration.run import run_of
from pipestate.project.find import Calls, Named
from pipestate.project.graph import Position

Steps = Callable[[Any, Any], Iterable[Any]]


def environment_of(context: Any) -> EnvironmentContext:
    """Return the environment behind `alembic.context`."""
    environment: EnvironmentContext = getattr(context, "_proxy", context)
    return environment


def is_configured(environment: EnvironmentContext) -> bool:
    """Say whether `context.configure(...)` has run."""
    return environment._migration_context is not None


_STEPS: WeakKeyDictionary[MigrationContext, list[str]] = WeakKeyDictionary()


def _remember_steps() -> None:
    """Remember the steps of each context: a guard at the end of env.py must name what has run without it."""
    update = HeadMaintainer.update_to_step

    @wraps(update)
    def update_to_step(self: HeadMaintainer, step: Any) -> None:
        update(self, step)
        _STEPS.setdefault(self.context, []).append(str(step))

    HeadMaintainer.update_to_step = update_to_step  # type: ignore[method-assign]


_remember_steps()


def describe_unguarded(environment: EnvironmentContext) -> str:
    """Name the steps that ran without the guard, and say what stays of them."""
    steps, migration = _STEPS.get(environment.get_context(), []), environment.get_context()
    if not steps:
        return "no revision has run"
    connection = migration.connection
    if migration.as_sql:
        kept = "wrote the script of {} without protection: do not use it"
    elif connection is not None and not connection.closed and connection.in_transaction():
        kept = "ran {}, and uncommitted changes are rolled back. To see the revision: alembic current"
    else:
        kept = "ran {}, which stays"
    return f"it {kept.format(listed(steps, most=len(steps)))}"


def wrap_migrations(context: MigrationContext, wrap: Callable[[Steps], Steps]) -> None:
    """Replace the function that yields the steps of this run."""
    if context._migrations_fn is not None:
        context._migrations_fn = wrap(context._migrations_fn)


def version_table(context: MigrationContext) -> Table:
    """Return the version table of this run."""
    return context._version


def known_plugins(plugins: Sequence[str]) -> dict[str, list[str]]:
    """Name the plugins that this Alembic has: they came with 1.18, those of `alembic.ext` with 1.20."""
    try:
        from alembic.runtime.plugins import _all_plugins
    except ImportError:
        return {}
    there = [name for name in plugins if name in _all_plugins or not name.startswith("alembic.ext.")]
    return {"autogenerate_plugins": there}


def is_upgrade() -> bool | None:
    """Return the direction of the revision: that of the guard's step, else of the step that Alembic is running.

    Outside the guard, under an application's own steps, only Alembic's frame knows it. Return None without one.
    """
    known = run_of(op.get_context()).is_upgrade
    frame = inspect.currentframe() if known is None else None
    while frame is not None:
        if frame.f_code is MigrationContext.run_migrations.__code__:
            step = frame.f_locals.get("step")
            return step.is_upgrade if isinstance(step, RevisionStep) else None
        frame = frame.f_back
    return known


# Transactions: whether a helper may commit in the middle of its work, and whether one has.


def may_commit() -> bool:
    """Say whether Alembic began the transaction for this revision alone: a commit then affects only this
    revision.

    In a file, commits happen only at the end of the transaction, so work that would commit is allowed.
    """
    context = op.get_context()
    if engine_of(context).IS_FILE:
        return True
    if is_lent(context) or not has_own_transactions(context):
        return False
    return context.as_sql or context._transaction is not None


def is_lent(context: MigrationContext) -> bool:
    """Say whether the transaction was begun outside Alembic."""
    return bool(context._in_external_transaction)


def has_own_transactions(context: MigrationContext) -> bool:
    """Say whether each revision has a separate transaction."""
    return bool(context._transaction_per_migration)


# The database's position, as Alembic's context reports it.


def resolve(script: ScriptDirectory, heads: tuple[str, ...]) -> Position:
    """Make a position of the revisions that the version table holds."""
    try:
        paths = {str(revision.revision): Path(revision.path) for revision in script.walk_revisions()}
        applied = frozenset(
            revision.revision for revision in script.iterate_revisions(heads, "base") if heads
        )
    except CommandError as error:
        raise ConfigError(
            f"the database is at revision {' '.join(heads)}, which this project does not have: "
            "name the right alembic.ini"
        ) from error
    at, head = " ".join(heads) or None, " ".join(sorted(script.get_heads())) or None
    return Position(frozenset(paths), applied, at, head, paths)


def resolve_below(script: ScriptDirectory, revision: str) -> Position:
    """Make the position of a script, which starts below its revision: all ancestors and dependencies are
    applied."""
    known = resolve(script, ())
    below = _related(script, revision, script.revision_map._get_ancestor_nodes)
    found = script.get_revision(revision)
    before = found.down_revision if found is not None else None
    at = before if isinstance(before, str) else " ".join(before or ()) or None
    return Position(known.known, below - {revision}, at, known.head, known.paths)


def beside(script: ScriptDirectory, revision: str) -> frozenset[str]:
    """List the revisions of other branches: neither below this one nor above it."""
    every = frozenset(str(each.revision) for each in script.walk_revisions())
    below = _related(script, revision, script.revision_map._get_ancestor_nodes)
    above = _related(script, revision, script.revision_map._get_descendant_nodes)
    return every - below - above


def _related(
    script: ScriptDirectory, revision: str, nodes: Callable[[list[Any]], Iterable[Any]]
) -> frozenset[str]:
    return frozenset(str(each.revision) for each in nodes([script.get_revision(revision)]))


# Command-line options of the project that Alembic is running, for the advice of a closed gate.


def calls_of(config: Config | None) -> Calls:
    """Repeat the `-c` and `-n` of Alembic's command line; return plain calls without one, and Flask's in its runs."""
    if config is not None and type(config).__module__.partition(".")[0] == "flask_migrate":
        return Calls(Named(flask=Path(config.get_main_option("script_location") or "migrations")))
    options = getattr(config, "cmd_opts", None)
    given = getattr(options, "config", None) or []
    files = [given] if isinstance(given, str) else list(given)  # a single file before Alembic 1.16
    section = getattr(options, "name", None)
    named = Named(
        config=Path(files[0])
        if files and files[0] != "alembic.ini"
        else None,  # before 1.16 the default is given
        section=section if section not in (None, "alembic") else None,
    )
    return Calls(named)
