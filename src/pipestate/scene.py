"""The old world that the demo starts from: 300 sites, 105 of them stuck in OCR, two sources of truth."""

from sqlalchemy import Connection, insert, text

from pipestate.schema import legacy_metadata, site_progress
from pipestate.schema.legacy import legacy_sites

SITES = 300
STUCK = 105


def build(connection: Connection) -> None:
    """The application's own tables, as they were before anybody thought of counters."""
    legacy_metadata.create_all(connection)
    connection.execute(insert(legacy_sites), [_site(number) for number in range(SITES)])
    connection.execute(insert(site_progress), [_progress(number) for number in range(SITES)])
    # The old code is still running: it has just written to a few sites.
    connection.execute(text("UPDATE site_progress SET updated_at = now() - interval '5 days'"))
    connection.execute(text("UPDATE site_progress SET updated_at = now() WHERE subdomain < 'site003'"))


def let_a_week_pass(connection: Connection) -> None:
    """The demo cannot wait: it makes its own rows older, and writes what a week would have written."""
    connection.execute(text("UPDATE site_progress SET updated_at = updated_at - interval '8 days'"))
    connection.execute(
        text(
            "INSERT INTO pipestate_reconciliation (started_at, finished_at, triggered_by, actor, found, recovered) "
            "SELECT at, at, 'cron', 'cron', 0, 0 FROM generate_series("
            "now() - interval '8 days', now(), interval '15 minutes') AS at"
        )
    )
    connection.execute(
        text(
            "INSERT INTO pipestate_run (recorded_at, actor, event, runbook, phase, gate, runbook_sha256, passed) "
            "SELECT at, 'ci', 'verify', 'sites-consolidation', 'backfill', 'open', '', 7 FROM generate_series("
            "now() - interval '8 days', now(), interval '1 day') AS at"
        )
    )


def _site(number: int) -> dict[str, str | None]:
    stuck = number < STUCK
    return {
        "subdomain": f"site{number:03}.example.gov",
        "status": "needs_ocr" if stuck else "deployed",
        "extraction_status": "pending" if stuck else "completed",
        "last_updated": f"2026-01-{number % 28 + 1:02}T08:00:00",
        "last_deployed": None if stuck else f"2026-01-{number % 28 + 1:02}T09:00:00",
        "last_extracted": None,
    }


def _progress(number: int) -> dict[str, str | int]:
    stuck = number < STUCK
    return {
        "subdomain": f"site{number:03}.example.gov",
        "current_stage": "ocr" if stuck else "completed",
        "stage_total": 15 if stuck else 1,
        "stage_completed": 12 if stuck else 1,
    }
