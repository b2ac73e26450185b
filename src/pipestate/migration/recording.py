"""The ledger's rows of applied, reverted and stamped revisions, and its record of the schema after a run."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import PipestateError
from pipestate.database.connections import name_of
from pipestate.database.drivers import message
from pipestate.ledger.record import record_event, record_schema
from pipestate.ledger.state import LedgerState, older, read_ledger_state
from pipestate.migration.engine import ENGINES, migration_engine_of
from pipestate.migration.failure import translate_errors, warn
from pipestate.migration.losses import take_dropped
from pipestate.migration.run import SCHEMAS, run_of
from pipestate.migration.sql import quoted
from pipestate.project.file_hashes import hash_file

NO_LEDGER = "this database has no ledger, so nothing of this run is recorded: pipestate ledger install"
NOT_RECORDED = "the schema was not recorded, so `pipestate drift` compares with an older record: %s"


def record(*, ctx: MigrationContext, step: Any, heads: Any, run_args: Mapping[str, Any]) -> None:
    """Write an applied revision into the ledger (Alembic's `on_version_apply`).

    Warn once if the ledger is too old.
    """
    del run_args
    assert ctx.connection is not None
    run_of(ctx).heads = heads
    with translate_errors(ctx.connection.engine.url):
        state = read_ledger_state(ctx.connection)
        run_of(ctx).has_ledger = state.installed
        if state.missing:
            if not run_of(ctx).has_warned_of_ledger:  # only a command updates it, not every migration
                run_of(ctx).has_warned_of_ledger = True
                warn("%s; until then no migration is recorded", older(state))
        elif state.installed:
            _write(ctx, step, state)


def record_run(migration: MigrationContext, *, lent: bool = False) -> None:
    """Record the schema after a run that has applied revisions, in a separate transaction.

    The revisions are already committed, so a failure is a warning. With `lent` the transaction is the
    caller's. The schema of a single tenant is skipped: the record covers the whole database, and the fleet
    makes it.
    """
    run = run_of(migration)
    connection, heads, run.heads = migration.connection, run.heads, None
    if heads is None or connection is None or connection.closed or connection.invalidated:
        return
    if migration.config is not None and SCHEMAS in migration.config.attributes:
        return
    try:
        if not lent:
            connection.rollback()  # queries since the last commit
        with connection.begin_nested() if lent else connection.begin():
            state = read_ledger_state(connection)
            if state.installed and not state.missing:
                record_schema(connection, _joined(heads))
        if heads and not state.installed:
            warn(NO_LEDGER)
    except DBAPIError as error:
        warn(NOT_RECORDED, " ".join(message(error).split()))
    except PipestateError as error:
        warn(NOT_RECORDED, error)


def record_at_end_of_script(migration: MigrationContext) -> None:
    """Make the script record the schema behind its last revision, except on SQLite: SQL alone cannot read
    first."""
    run = migration.run_migrations

    def keep_heads(*, ctx: MigrationContext, heads: Any, **_: Any) -> None:
        run_of(ctx).heads = heads

    def run_and_record(**arguments: Any) -> None:
        run(**arguments)
        heads, run_of(migration).heads = run_of(migration).heads, None
        if heads is not None and name_of(migration) in ENGINES:
            migration_engine_of(migration).write_schema_record(_joined(heads))

    migration.on_version_apply_callbacks = (*migration.on_version_apply_callbacks, keep_heads)
    migration.run_migrations = run_and_record  # type: ignore[method-assign]


def _write(ctx: MigrationContext, step: Any, state: LedgerState) -> None:
    assert ctx.connection is not None
    event = "stamp" if step.is_stamp else "upgrade" if step.is_upgrade else "downgrade"
    ids = step.destination_revision_ids if step.is_stamp else step.up_revision_ids
    revision = " ".join(ids) or "base"
    run = run_of(ctx)
    duration = round((time.monotonic() - run.began) * 1000, 1) if run.revision == revision else None
    dropped, reason = take_dropped(ctx, revision)
    title, file_sha256, version_table = describe_file(ctx, None if step.is_stamp else step.up_revision)
    record_event(
        ctx.connection,
        event,
        revision=revision,
        duration_ms=duration,
        title=title,
        file_sha256=file_sha256,
        version_table=version_table,
        dropped=dropped,
        reason=reason,
        state=state,
    )


def describe_file(context: MigrationContext, script: Any) -> tuple[str | None, str | None, str]:
    """Return a revision's title (the first line of its docstring), the hash of its file, and its version
    table."""
    parts = (context.version_table_schema, context.version_table)
    version_table = ".".join(quoted(part) for part in parts if part)
    if script is None:
        return None, None, version_table
    lines, file = str(script.doc or "").strip().splitlines(), Path(script.path)
    return lines[0].strip() if lines else None, hash_file(file) if file.is_file() else None, version_table


def _joined(heads: Collection[str]) -> str | None:
    return " ".join(sorted(heads)) or None
