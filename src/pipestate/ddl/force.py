"""What a closed gate does on the server: refuse, or, with `-x force`, write down why it did not."""

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ledger.actor import who
from pipestate.ledger.record import script_insert


def force_reason() -> str | None:
    """Read what was given as `-x force=...`."""
    environment = op.get_context().environment_context
    options = environment.get_x_argument(as_dictionary=True) if environment is not None else {}
    reason = options.get("force")
    if reason is not None and not reason.strip():
        raise MigrationError("-x force= is empty: it takes a reason to go through a closed gate")
    return reason


def force_statement(said: str = "", *, runbook: str = "", phase: str = "") -> str | None:
    """Write the statement that records a force, harmless where there is no ledger; None where nothing is forced.

    `said` stands before the reason: what was forced outside of a gate.
    """
    reason = force_reason()
    if reason is None:
        return None
    values = {
        "event": "'force'",
        "actor": _actor(),
        "revision": sql.literal(sql.current_revision()),
        "reason": sql.literal(f"{said}: {reason}" if said else reason),
    }
    if runbook:
        values |= {"runbook": sql.literal(runbook), "phase": sql.literal(phase), "gate": "'closed'"}
    return f"DO {sql.dollar(f'BEGIN{chr(10)}{script_insert(values)}{chr(10)}END', 'force')}"


def _actor() -> str:
    """Name who forces it: online, the person who typed the command; in a script, the role that will run it."""
    return "current_user" if sql.is_offline() else sql.literal(who())
