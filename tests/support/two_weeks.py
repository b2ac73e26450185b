"""Two weeks of the ledger between expand and contract: records, a gap, sign-offs, probes, a force, a rehearsal."""

from support.healthy_database import observation, recorded
from support.servers import Database
from support.sql_times import run_timed


def failure(check: str, message: str) -> str:
    """A blocking check that failed in the run that was written last."""
    return (
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, message) "
        f"SELECT max(id), '{check}', 'failed', 'block', '{message}' FROM pipestate.run"
    )


def word(phase: str, name: str, person: str, when: str) -> str:
    return (
        "INSERT INTO pipestate.attestation (runbook, phase, name, person, note, signed_at) "
        f"VALUES ('sites-consolidation', '{phase}', '{name}', '{person}', 's3', <{when}>)"
    )


WEEKS = (
    "DELETE FROM pipestate.attestation",
    recorded("12 days ago", "closed"),
    failure("counters-consistent", "2 rows, first: overshot; required rows = 0"),
    *(recorded(f"{days} days ago", "open") for days in (11, 10, 9)),
    *(recorded(f"{days} days ago", "open") for days in (5, 4, 3, 2, 1)),
    recorded("6 days ago", "closed", phase="readiness"),
    failure("soak", "days_open is 5.00, required >= 7"),
    failure("stuck-sites", "stuck_pct is 3.3, required < 1.0"),
    word("backfill", "code-deployed", "dba@example.com", "12.5 days ago"),
    word("readiness", "backup-taken", "dba@example.com", "30.5 hours ago"),
    observation("deferred_coordinators", 0, "2.5 hours ago"),
    observation("failed_ocr_jobs", 0, "0.5 hours ago"),
    observation("open_tickets", 1234567.5, "3.5 days ago"),
    "INSERT INTO pipestate.run (recorded_at, actor, event, runbook, phase, gate, revision, reason) VALUES "
    "(<13 days ago>, 'ops', 'force', 'sites-consolidation', 'readiness', 'closed', '0006', 'incident 42')",
    failure("soak", "no row"),
    "INSERT INTO pipestate.rehearsal (rehearsed_at, actor, files, clone, rows, longest_wait_ms, idle_wait_ms, bounded, ok) "
    "VALUES (<2.5 days ago>, 'ops', '{\"0006\": \"x\"}', 'postgresql://clone/civic', 100, 12.5, 3.0, true, true)",
    "INSERT INTO pipestate.backfill_progress (runbook, name, table_name, key_column, sql_sha256, actor, rows_seen, "
    "rows_expected, rows_updated, updated_at) VALUES "
    "('sites-consolidation', 'state', 'sites', 'subdomain', '', 'ops', 41, 100, 40, <1.5 hours ago>)",
)


def let_weeks_pass(database: Database) -> None:
    """Write them into the ledger of a database at 0005."""
    run_timed(database, *WEEKS)
