"""Ninety days of records: what `verify` meets in the ledger of a database that somebody looks after.

They grow with time and not with the rows, so every size gets the same: an hourly `verify --record` of every shipped
phase with eight results each, an observation of every probe and a reconciliation every fifteen minutes. Every gate
was open and every value calm all the time: then a streak is as long as it can be, and its views have most to read.
The last of them are minutes old, so it is filled just before it is read.
"""

from sqlalchemy.engine import URL

from _common import execute

DAYS = 90
PHASES = (
    *("sites-consolidation/expand", "sites-consolidation/backfill", "sites-consolidation/readiness"),
    *("content-item-pipeline-state/schema", "content-item-pipeline-state/operation"),
    *("queue-cutover/dual-write", "queue-cutover/shadow", "queue-cutover/cutover", "queue-cutover/cleanup"),
)
PROBES = (
    *("sqs_queue_depth", "sqs_dlq_depth", "sqs_oldest_message_seconds", "prefect_failed_runs"),
    *("deferred_coordinators", "failed_ocr_jobs"),
)
QUARTERS = f"generate_series(now() - interval '{DAYS} days', now(), interval '15 minutes')"

HISTORY = (
    f"""INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, runbook_sha256, revision, passed,
       duration_ms)
       SELECT at, 'verify', 'cron', split_part(name, '/', 1), split_part(name, '/', 2), 'open', repeat('0', 64),
         '0005', 8, 40.0
       FROM generate_series(now() - interval '{DAYS} days', now(), interval '1 hour') AS at,
         unnest(ARRAY{list(PHASES)}) AS name""",
    """INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, duration_ms)
       SELECT id, 'check-' || n, 'pass', 'error', 'rows = 0', '{"rows": 0}', 5.0
       FROM pipestate.run, generate_series(1, 8) AS n WHERE event = 'verify'""",
    f"""INSERT INTO pipestate.observation (observed_at, name, value, source, actor, revision)
       SELECT at, name, 0, 'cron', 'cron', '0005' FROM {QUARTERS} AS at, unnest(ARRAY{list(PROBES)}) AS name""",
    f"""INSERT INTO pipeline_reconciliation (started_at, finished_at, triggered_by, actor, found, recovered, skipped,
       failed) SELECT at, at + interval '10 seconds', 'cron', 'cron', 1, 1, 0, 0 FROM {QUARTERS} AS at""",
)


def fill_ledger(database: URL) -> None:
    """Write the records into a ledger that has none."""
    execute(database, *HISTORY, "VACUUM ANALYZE")
