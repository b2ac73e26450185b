"""What a team has done by the time that its readiness gate opens: written into the ledger of a test."""

from datetime import UTC, datetime, timedelta

from bed import Database


def make_ready(database: Database) -> None:
    """A week of reconciliations and of passed backfill checks, and a backup signed off today."""
    now = datetime.now(UTC)
    zone = "" if database.is_sqlite else "+00"
    runs = [now - timedelta(days=8)] + [now - timedelta(minutes=15 * number) for number in range(12)]
    verified = [now - timedelta(days=8), now - timedelta(hours=1)]
    database.run(
        *(
            "INSERT INTO pipeline_reconciliation (started_at, finished_at, triggered_by, actor, found, recovered) "
            f"VALUES ('{at:%Y-%m-%d %H:%M:%S}{zone}', '{at:%Y-%m-%d %H:%M:%S}{zone}', 'cron', 'cron', 0, 0)"
            for at in runs
        ),
        *(
            "INSERT INTO pipestate.run (recorded_at, actor, event, runbook, phase, gate, runbook_sha256, passed) "
            f"VALUES ('{at:%Y-%m-%d %H:%M:%S}{zone}', 'ci', 'verify', 'sites-consolidation', 'backfill', 'open', '', 7)"
            for at in verified
        ),
        "INSERT INTO pipestate.attestation (runbook, phase, name, person) "
        "VALUES ('sites-consolidation', 'readiness', 'backup-taken', 'dba')",
    )
