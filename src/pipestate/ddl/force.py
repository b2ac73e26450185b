"""What a closed gate does on the server: refuse, or, with `-x force`, write down why it did not."""

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError


def force_reason() -> str | None:
    """Read what was given as `-x force=...`."""
    environment = op.get_context().environment_context
    options = environment.get_x_argument(as_dictionary=True) if environment is not None else {}
    reason = options.get("force")
    if reason is not None and not reason.strip():
        raise MigrationError("-x force= is empty: it takes a reason to go through a closed gate")
    return reason


def force_statement(*, runbook: str, phase: str) -> str | None:
    """Write the statement that records a force, harmless where there is no ledger; None where nothing is forced."""
    reason = force_reason()
    if reason is None:
        return None
    line = entry(reason, runbook=runbook, phase=phase)
    there = f"IF {sql.regclass('pipestate_run')} IS NOT NULL THEN {line}; END IF;"
    return f"DO {sql.dollar(f'BEGIN {there} END', 'force')}"


def closed(message: str, values: dict[str, str], *, runbook: str, phase: str, sha256: str = "") -> str:
    """Write PL/pgSQL: an exception, or an entry in the ledger."""
    reason = force_reason()
    if reason is None:
        return sql.refusal(message, values)
    return f"{entry(reason, runbook=runbook, phase=phase, sha256=sha256)};"


def entry(reason: str, *, runbook: str, phase: str, sha256: str = "", actor: str = "CURRENT_USER") -> str:
    """Write the ledger's line on what was forced."""
    values = sql.literals(("force", runbook, phase, "closed", sha256, reason, sql.current_revision()))
    return (
        "INSERT INTO pipestate_run (actor, event, runbook, phase, gate, runbook_sha256, reason, revision) "
        f"VALUES ({actor}, {values})"
    )
