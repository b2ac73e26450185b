"""Rows of the ledger that the attacks compare."""

from support.servers import Database


def recorded(database: Database, event: str) -> list[tuple[object, ...]]:
    """List runbook, phase and reason of every run of that kind."""
    return database.rows(
        f"SELECT runbook, phase, reason FROM pipestate.run WHERE event = '{event}' ORDER BY id"
    )


def recorded_failures(database: Database, event: str) -> set[str]:
    """Name the checks that runs of that kind call failed or errored."""
    rows = database.rows(
        "SELECT check_id FROM pipestate.result JOIN pipestate.run AS r ON r.id = run_id "
        f"WHERE event = '{event}' AND outcome IN ('failed', 'errored')"
    )
    return {str(name) for (name,) in rows}


def recorded_revisions(database: Database, event: str) -> list[str]:
    """List the revisions that the ledger says were applied, or taken back."""
    rows = database.rows(f"SELECT revision FROM pipestate.run WHERE event = '{event}' ORDER BY id")
    return [str(revision) for (revision,) in rows]


def let_use_ledger(owner: Database, role: Database) -> None:
    """Grant a role what a gate needs of the ledger."""
    owner.run(f"CALL pipestate.grant_migrating('{role.url.username}')")
