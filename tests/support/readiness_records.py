"""What a team has done by the time that its readiness gate opens: written into the ledger of a test."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from support.servers import Database

CARRIED_OVER = (
    "UPDATE sites SET current_stage = 'completed' WHERE current_stage IS NULL AND status IS NOT NULL"
)


def make_ready(database: Database) -> None:
    """A week of reconciliations and of passed backfill checks, every site carried over, backup and release signed off."""
    now = datetime.now(UTC)
    zone = "" if database.is_sqlite else "+00"
    runs = [now - timedelta(days=8)] + [now - timedelta(minutes=15 * number) for number in range(12)]
    columns = {column["name"] for column in sa.inspect(database.engine).get_columns("sites")}
    verified = [now - timedelta(days=days, hours=1) for days in range(8, -1, -1)]
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
        *([CARRIED_OVER] if "status" in columns else []),
        "INSERT INTO pipestate.attestation (runbook, phase, name, person) VALUES "
        "('sites-consolidation', 'readiness', 'backup-taken', 'dba'), "
        "('sites-consolidation', 'readiness', 'old-columns-unread', 'dba')",
    )
