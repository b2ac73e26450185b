"""Backfill of a runbook inside a revision."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op

from pipestate.backfill.recorded import How, run
from pipestate.backfill.source import Found, find_backfill
from pipestate.core.errors import PipestateError
from pipestate.core.text import many
from pipestate.database.connections import engine_of
from pipestate.ledger.state import require_ledger
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError, translate_errors, warn
from pipestate.migration.request import runbooks_of
from pipestate.migration.run import current_run
from pipestate.runbook.files import runbooks_at
from pipestate.runbook.update import matching, without_range


def run_in_revision(name: str) -> None:
    """Run the backfill online, or check for remaining rows in a script.

    A SQLite file has a single writer, so the backfill runs there as one statement.
    """
    with _translate_errors():
        context = op.get_context()
        found = find_backfill(name, runbooks_at(name, runbooks_of(context)), context.dialect.name)
        own = found.backfill
        if engine_of(context).IS_FILE:
            sql.emit(without_range(own.sql, own.dialect))
        elif sql.is_offline():
            sql.refuse_when(
                f"EXISTS (SELECT 1 {without_range(matching(own), own.dialect)}\n)",
                f"rows of {own.table} are not filled yet: run pipestate backfill {found.address}, then this script "
                "again",
            )
        else:
            _run_online(found)


def _run_online(found: Found) -> None:
    with sql.autocommit():
        connection = op.get_bind()
        require_ledger(connection)
        how = How(on_wait=lambda said: warn("%s", said))
        result = run(connection, found, how, revision=current_run().revision or None)
    if result.rows_left:
        raise MigrationError(
            f"{found.address} has updated {many(result.rows_updated, 'row')}, and {many(result.rows_left, 'row')} of "
            f"{result.table} still match: fix them or the UPDATE at {found.backfill.block}, then run the same again"
        )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert every pipestate error into one that Alembic shows without a traceback."""
    try:
        if sql.is_offline():
            yield
        else:
            with translate_errors(op.get_bind().engine.url):
                yield
    except MigrationError:
        raise
    except PipestateError as error:
        raise MigrationError(str(error)) from None
