"""The mark that a passed gate leaves in its transaction, and that whatever destroys something asks for.

The mark is a transaction-local setting on PostgreSQL: it dies with the transaction, a rollback to a savepoint
takes it back, and a script sees the same one as a migration that runs online. SQLite has no such settings;
there the mark lives beside the migration's context, as long as the gate's body runs.
"""

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError

SETTING = "pipestate.gate"
_OPTION = "pipestate_gate"

NO_GATE = (
    "{what} destroys something, and no gate was asked for it: call it inside `with gate(...)`, "
    "or make the revision a Contract"
)


def set_mark(revision: str) -> None:
    """Leave the mark of a revision whose gate is open, or was forced."""
    op.get_context().opts[_OPTION] = revision
    if op.get_context().dialect.name == "postgresql" and not sql.is_offline():
        sql.emit(f"SELECT {setting(revision)}")


def clear_mark() -> None:
    """Forget the mark of an earlier revision; the transaction may be the same one."""
    op.get_context().opts.pop(_OPTION, None)


def require_mark(what: str) -> None:
    """Refuse `what` where no gate has been passed in this transaction, online and in scripts."""
    revision = op.get_context().opts.get(_OPTION)
    message = NO_GATE.format(what=what)
    if revision is None:
        raise MigrationError(message)
    if op.get_context().dialect.name == "postgresql":
        sql.refuse_when(is_missing(str(revision)), message)


def is_marked(revision: str) -> bool:
    """Say whether the gate of this revision has been passed; ask the server where there is one."""
    context = op.get_context()
    if context.dialect.name != "postgresql":
        return bool(context.opts.get(_OPTION) == revision)
    found = op.get_bind().exec_driver_sql(f"SELECT current_setting('{SETTING}', true)").scalar()
    return bool(found == revision)


def setting(revision: str) -> str:
    """Write the call that sets the mark, as an SQL expression."""
    return f"set_config('{SETTING}', {sql.literal(revision)}, true)"


def is_missing(revision: str) -> str:
    """Write the condition that the mark is not there."""
    return f"current_setting('{SETTING}', true) IS DISTINCT FROM {sql.literal(revision)}"
