"""The mark that a passed gate leaves in its transaction, and that whatever destroys something asks for.

The mark is a transaction-local setting on PostgreSQL: it dies with the transaction, a rollback to a savepoint
takes it back, and a script sees the same one as a migration that runs online. SQLite has no such settings;
there the mark lives beside the migration's context. What destroys something asks for more than the mark: it must
stand in the body of that gate, and the gate must have locked its table.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.direction import is_upgrade
from pipestate.ddl.failure import MigrationError
from pipestate.engines.engine import engine_of

SETTING = "pipestate.gate"
_PASSED = "pipestate_gate"
_INSIDE = "pipestate_inside_gate"

NO_GATE = (
    "{what} destroys something, and no gate was asked for it: call it inside `with gate(...)`, "
    "or make the revision a Contract"
)
NO_DIRECTION = (
    "; a downgrade needs none, but it is not Alembic's own command that runs this one: `guard(context)` in env.py tells "
    "which way a revision goes"
)
NOT_LOCKED = (
    "{what} destroys something of {table}, which the gate of this revision has not locked, so its rows were not looked "
    "at: name it in gate(..., lock=[...])"
)


def set_mark(revision: str) -> None:
    """Leave the mark of a revision whose gate is open, or was forced."""
    op.get_context().opts[_PASSED] = revision
    if _is_setting() and not sql.is_offline():
        sql.emit(f"SELECT {setting(revision)}")


@contextmanager
def inside(revision: str, locked: Sequence[str]) -> Iterator[None]:
    """Run the body of a gate that was passed: only there something may be destroyed, of the tables that it locked."""
    options = op.get_context().opts
    options[_INSIDE] = (revision, tuple(locked))
    try:
        yield
    finally:
        options.pop(_INSIDE, None)


def require_gate(what: str, *tables: str) -> None:
    """Refuse to take something away on the way up where no gate has been passed; the way down needs none."""
    upward = is_upgrade()
    if upward is not False:
        require_mark(what, *tables, more=NO_DIRECTION if upward is None else "")


def require_mark(what: str, *tables: str, more: str = "") -> None:
    """Refuse `what` where no gate has been passed for it in this transaction, online and in scripts.

    `more` ends the message.
    """
    revision, locked = op.get_context().opts.get(_INSIDE, (None, ()))
    message = NO_GATE.format(what=what) + more
    if revision is None:
        raise MigrationError(message)
    if _is_setting():
        unlocked = {
            is_not_locked(sql.regclass(table)): NOT_LOCKED.format(what=what, table=table) for table in tables
        }
        sql.refuse_any({is_missing(revision): message} | unlocked)
    else:
        for table in set(tables) - set(locked):
            raise MigrationError(NOT_LOCKED.format(what=what, table=table))


def is_marked(revision: str) -> bool:
    """Say whether the gate of this revision has been passed; in a script, whether it was written."""
    context = op.get_context()
    if context.as_sql or not _is_setting():
        return bool(context.opts.get(_PASSED) == revision)
    found = op.get_bind().exec_driver_sql(f"SELECT current_setting('{SETTING}', true)").scalar()
    return bool(found == revision)


def _is_setting() -> bool:
    return engine_of(op.get_context()).HAS_SETTINGS


def setting(revision: str) -> str:
    """Write the call that sets the mark, as an SQL expression."""
    return f"set_config('{SETTING}', {sql.literal(revision)}, true)"


def is_missing(revision: str) -> str:
    """Write the condition that the mark is not there."""
    return f"current_setting('{SETTING}', true) IS DISTINCT FROM {sql.literal(revision)}"


def is_not_locked(relation: str) -> str:
    """Write the condition that a table exists and this session does not hold the lock that a drop needs.

    `relation` is an SQL expression of the table: NULL where it does not exist.
    """
    return (
        f"{relation} IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() "
        f"AND locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock' AND relation = {relation})"
    )
