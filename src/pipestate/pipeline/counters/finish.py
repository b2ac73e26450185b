"""Count finished jobs, and claim the one coordinator that follows a stage.

A worker calls `finish_job` at the end of its job and enqueues the coordinator when `claimed` is true.
The caller owns the transaction: what is counted, claimed and recorded is committed or lost together.
The other functions are the same in smaller pieces, for code that has them already.
"""

from sqlalchemy import Connection

from pipestate.pipeline.counters.claims import record_claim
from pipestate.pipeline.counters.driver import fetch_one
from pipestate.pipeline.counters.engine import ENGINES
from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL, FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome, read_counters
from pipestate.pipeline.error_text import error_text
from pipestate.pipeline.stages import InvalidJobs, UnknownSite, UnknownStage


def finish_job(
    conn: Connection,
    subdomain: str,
    stage: str,
    *,
    error: str | BaseException | None = None,
    job_key: str | None = None,
) -> JobOutcome:
    """Count a job as completed, or with `error` as failed, and claim the coordinator if it was the last.

    One statement and one round trip count and claim. With `job_key` a job that is delivered again
    neither counts nor claims; it gets the counters as they are. Exactly one job of a stage run (of all
    stages of a step that run side by side) sees `claimed`; it enqueues the coordinator after its commit.
    """
    sql = _sql(conn, stage)
    parameters = {"site": subdomain}
    if error is not None:
        parameters["error"] = error_text(error)
    if job_key is not None:
        if not job_key:
            raise InvalidJobs("job_key is empty: every job would be the same one")
        return ENGINES[conn.dialect.name].finish_keyed(conn, sql, stage, parameters, job_key)
    row = fetch_one(conn, sql.finish[error is not None], parameters)
    if row is None:
        return ENGINES[conn.dialect.name].finish_late(conn, sql, stage, parameters)
    if row[3]:
        record_claim(conn, subdomain, stage)
    return JobOutcome(row[0], row[1], row[2], bool(row[3]))


def increment_completed(conn: Connection, subdomain: str, stage: str) -> None:
    """Count a completed job, and no more."""
    _increment(conn, stage, {"site": subdomain})


def increment_failed(
    conn: Connection, subdomain: str, stage: str, error_message: str, error_class: str
) -> None:
    """Count a failed job and keep its error, cut to 500 characters."""
    _increment(conn, stage, {"site": subdomain, "error": error_text(f"{error_class}: {error_message}")})


def should_trigger_coordinator(conn: Connection, subdomain: str, stage: str) -> bool:
    """Is every job of the stage that the site is in finished, and no coordinator claimed?"""
    row = conn.exec_driver_sql(_sql(conn, stage).trigger, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    return bool(row[0])


def claim_coordinator_enqueue(conn: Connection, subdomain: str) -> bool:
    """Claim the coordinator of the stage that the site is in: once a stage run, and not before its end.

    After a reconciler released the claim it can be taken again, which counts as another attempt.
    """
    sql, parameters = CLAIM_SQL[conn.dialect.name], {"site": subdomain}
    row = conn.exec_driver_sql(sql.claim, parameters).first()
    if row is not None:
        record_claim(conn, subdomain, str(row[0]))
        return True
    if conn.exec_driver_sql(sql.current_stage, parameters).first() is None:
        raise UnknownSite(subdomain)
    return False


def _sql(conn: Connection, stage: str) -> FinishSql:
    try:
        return FINISH_SQL[conn.dialect.name, stage]
    except KeyError:
        raise UnknownStage(stage) from None


def _increment(conn: Connection, stage: str, parameters: dict[str, str]) -> None:
    sql = _sql(conn, stage)
    if conn.exec_driver_sql(sql.increment["error" in parameters], parameters).rowcount == 0:
        read_counters(conn, sql, stage, parameters["site"])
