"""The ledger's rows of what a migration applies, takes back or stamps; and whether they can be written at all."""

import time
from collections.abc import Mapping
from typing import Any

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from pipestate.ddl.failure import MigrationError, told_plainly
from pipestate.ddl.notice import warn
from pipestate.environment.steps import BEGAN
from pipestate.ledger.owners import require_trusted
from pipestate.ledger.record import record_event
from pipestate.ledger.state import State, look, older

_SAID = "pipestate_said_older"
# By oid: a name in a schema that this role may not use is an error.
_MAY_WRITE = """SELECT current_user::text AS me, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
      AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT') AS may
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relname = 'run'"""


def require_recordable(migration: MigrationContext) -> None:
    """Refuse a revision, before anything of it runs, where its row could not be written into the ledger."""
    connection = migration.connection
    if migration.as_sql or connection is None or connection.dialect.name != "postgresql":
        return
    with told_plainly(connection.engine.url):
        state = look(connection)
        if state.installed and not state.missing:
            require_trusted(connection)
            _require_rights(connection)


def _require_rights(connection: Connection) -> None:
    found = connection.exec_driver_sql(_MAY_WRITE).one()
    if not found.may:
        raise MigrationError(
            f"this database has a ledger, and the role {found.me} may not write into it, so nothing of this revision was "
            f'run: GRANT USAGE ON SCHEMA pipestate TO "{found.me}"; GRANT SELECT, INSERT ON pipestate.run, '
            f'pipestate.result TO "{found.me}"'
        )


def record(*, ctx: MigrationContext, step: Any, heads: Any, run_args: Mapping[str, Any]) -> None:
    """Write an applied revision into the ledger (Alembic's `on_version_apply`); warn once where it is too old."""
    del heads, run_args
    assert ctx.connection is not None
    with told_plainly(ctx.connection.engine.url):
        state = look(ctx.connection)
        if state.missing:
            _say_older(ctx, state)
        elif state.installed:
            _write(ctx, step, state)


def _write(ctx: MigrationContext, step: Any, state: State) -> None:
    assert ctx.connection is not None
    event = "stamp" if step.is_stamp else "upgrade" if step.is_upgrade else "downgrade"
    revision = " ".join(step.up_revision_ids)
    known, began = ctx.opts.get(BEGAN, ("", 0.0))
    duration = round((time.monotonic() - began) * 1000, 1) if known == revision else None
    record_event(ctx.connection, event, revision=revision, duration_ms=duration, state=state)


def _say_older(ctx: MigrationContext, state: State) -> None:
    """It is brought up to date by what says so, not by every migration."""
    if not ctx.opts.get(_SAID):
        ctx.opts[_SAID] = True
        warn("%s; until then no migration is recorded", older(state))
