"""Which way a revision goes, up or down, under anybody's env.py."""

from alembic import command, op
from alembic.runtime.migration import MigrationContext

_OPTION = "pipestate_is_upgrade"


def note_direction(context: MigrationContext, *, is_upgrade: bool) -> None:
    """Write down which way the step goes that begins now; `guard` and `run` do that for each."""
    context.opts[_OPTION] = is_upgrade


def is_upgrade() -> bool | None:
    """Say which way the revision goes: as the environment saw its step, else as Alembic's own command says.

    None where nobody knows: a function of somebody else's has chosen the steps, and no `guard` sees them.
    """
    context = op.get_context()
    if _OPTION in context.opts:
        return bool(context.opts[_OPTION])
    chosen_by = context._migrations_fn
    if getattr(chosen_by, "__module__", None) != command.__name__:
        return None
    return {"upgrade": True, "downgrade": False}.get(getattr(chosen_by, "__name__", ""))
