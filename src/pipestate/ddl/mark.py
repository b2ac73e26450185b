"""The mark that a passed gate leaves in its transaction, and that whatever destroys something asks for.

The mark is a transaction-local setting on PostgreSQL: it dies with the transaction, a rollback to a savepoint
takes it back, and a script sees the same one as a migration that runs online. SQLite has no such settings;
there the mark lives beside the migration's context. In both it ends with its revision, also where one transaction
holds several.
"""

from typing import Any

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.ddl import sql
from pipestate.ddl.direction import is_upgrade
from pipestate.ddl.failure import MigrationError

SETTING = "pipestate.gate"
_OPTION = "pipestate_gate"

NO_GATE = (
    "{what} destroys something, and no gate was asked for it: call it inside `with gate(...)`, "
    "or make the revision a Contract"
)
NO_DIRECTION = (
    "; a downgrade needs none, but it is not Alembic's own command that runs this one: `guard(context)` in env.py tells "
    "which way a revision goes"
)


def set_mark(revision: str) -> None:
    """Leave the mark of a revision whose gate is open, or was forced, until its version is stamped."""
    context = op.get_context()
    context.opts[_OPTION] = revision
    context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, _forget)
    if op.get_context().dialect.name == "postgresql" and not sql.is_offline():
        sql.emit(f"SELECT {setting(revision)}")


def clear_mark() -> None:
    """Forget the mark of an earlier gate; the transaction may be the same one."""
    _forget(ctx=op.get_context())


def _forget(*, ctx: MigrationContext, **_: Any) -> None:
    ctx.opts.pop(_OPTION, None)


def require_gate(what: str) -> None:
    """Refuse to take something away on the way up where no gate has been passed; the way down needs none."""
    upward = is_upgrade()
    if upward is not False:
        require_mark(what, NO_DIRECTION if upward is None else "")


def require_mark(what: str, more: str = "") -> None:
    """Refuse `what` where no gate has been passed in this transaction, online and in scripts; `more` ends the message."""
    revision = op.get_context().opts.get(_OPTION)
    message = NO_GATE.format(what=what) + more
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
