"""What a closed gate does on the server: refuse, or, with `-x force`, write down why it did not."""

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ledger.actor import who
from pipestate.ledger.record import script_insert


def force_reason() -> str | None:
    """What was given as `-x force=...`."""
    environment = op.get_context().environment_context
    options = environment.get_x_argument(as_dictionary=True) if environment is not None else {}
    reason = options.get("force")
    if reason is not None and not reason.strip():
        raise MigrationError("-x force= is empty: it takes a reason to go through a closed gate")
    return reason


def closed(message: str, values: dict[str, str], *, runbook: str, phase: str, sha256: str = "") -> str:
    """Render PL/pgSQL: an exception, or an entry in the ledger."""
    reason = force_reason()
    if reason is None:
        return sql.refusal(message, values)
    return script_insert(
        {
            "event": "'force'",
            "actor": _actor(),
            "runbook": sql.literal(runbook),
            "phase": sql.literal(phase),
            "gate": "'closed'",
            "runbook_sha256": sql.literal(sha256),
            "revision": sql.literal(sql.current_revision()),
            "reason": sql.literal(reason),
        }
    )


def forced(reason: str) -> str:
    """Render PL/pgSQL: the ledger's entry on what was forced outside of a gate."""
    return script_insert(
        {
            "event": "'force'",
            "actor": _actor(),
            "revision": sql.literal(sql.current_revision()),
            "reason": sql.literal(reason),
        }
    )


def _actor() -> str:
    """Online, the person who typed the command; in a script, the role that will run it."""
    return "current_user" if sql.is_offline() else sql.literal(who())
