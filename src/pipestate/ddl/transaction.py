"""Whose transaction this is: whether a helper may commit in the middle of its work, and whether one has."""

from alembic import op

from pipestate.engines.engine import engine_of


def may_commit() -> bool:
    """Say whether Alembic began the transaction, for this revision alone: then nothing else is committed with it.

    In a file nothing commits before the end of the transaction, so nothing speaks against work that would.
    """
    context = op.get_context()
    if engine_of(context).IS_FILE:
        return True
    if context._in_external_transaction or not context._transaction_per_migration:
        return False
    return context.as_sql or context._transaction is not None


def has_committed() -> bool:
    """Say whether this revision has committed something already: a copy of columns, batches, an index."""
    part = op.get_context().opts.get("pipestate_part")
    return bool(part and part[1])
