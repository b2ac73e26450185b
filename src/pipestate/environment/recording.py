"""The ledger's rows of what a migration applies, takes back or stamps; and whether they can be written at all."""

import time
from collections.abc import Mapping
from typing import Any

from alembic.runtime.migration import MigrationContext

from pipestate.ddl.failure import told_plainly
from pipestate.ddl.notice import warn
from pipestate.environment.engine import engine_of
from pipestate.environment.steps import BEGAN
from pipestate.ledger.record import record_event
from pipestate.ledger.state import LedgerState, look, older

_SAID = "pipestate_said_older"


def require_recordable(migration: MigrationContext) -> None:
    """Refuse a revision, before anything of it runs, where its row could not be written into the ledger."""
    connection = migration.connection
    if not migration.as_sql and connection is not None:
        engine_of(connection).require_recordable(connection)


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


def _write(ctx: MigrationContext, step: Any, state: LedgerState) -> None:
    assert ctx.connection is not None
    event = "stamp" if step.is_stamp else "upgrade" if step.is_upgrade else "downgrade"
    revision = " ".join(step.up_revision_ids)
    known, began = ctx.opts.get(BEGAN, ("", 0.0))
    duration = round((time.monotonic() - began) * 1000, 1) if known == revision else None
    record_event(ctx.connection, event, revision=revision, duration_ms=duration, state=state)


def _say_older(ctx: MigrationContext, state: LedgerState) -> None:
    """It is brought up to date by what says so, not by every migration."""
    if not ctx.opts.get(_SAID):
        ctx.opts[_SAID] = True
        warn("%s; until then no migration is recorded", older(state))
