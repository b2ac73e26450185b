"""What a ledger holds, in the words of today's or of 0.1.0's tables."""

import json

from attacks import attacked
from attacks.attacked import ledger_table
from bed import Database


def recorded(database: Database, event: str) -> list[tuple[object, ...]]:
    """List runbook, phase and reason of every run of that kind."""
    run = ledger_table("run")
    return database.rows(f"SELECT runbook, phase, reason FROM {run} WHERE event = '{event}' ORDER BY id")


def recorded_failures(database: Database, event: str) -> set[str]:
    """Name the checks that runs of that kind call failed or errored."""
    run = ledger_table("run")
    if attacked.is_first_version():
        rows = database.rows(f"SELECT coalesce(details, '[]')::text FROM {run} WHERE event = '{event}'")
        return {each["id"] for (details,) in rows for each in json.loads(str(details))}
    rows = database.rows(
        f"SELECT check_id FROM {ledger_table('result')} JOIN {run} AS r ON r.id = run_id "
        f"WHERE event = '{event}' AND outcome IN ('failed', 'errored')"
    )
    return {str(name) for (name,) in rows}


def recorded_revisions(database: Database, event: str) -> list[str]:
    """List the revisions that the ledger says were applied, or taken back."""
    rows = database.rows(f"SELECT revision FROM {ledger_table('run')} WHERE event = '{event}' ORDER BY id")
    return [str(revision) for (revision,) in rows]
