"""Count finished jobs and claim coordinators, with one statement on the driver's own cursor.

Every job makes this call. SQLAlchemy's execution would double the driver's cost, so only its transaction
and its errors are used. The statement bypasses the engine's events and echo.
"""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.pipeline.counters.engine import ENGINES
from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL, FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome, read_counters, record_claim
from pipestate.pipeline.stages import InvalidJobs, UnknownSite, UnknownStage, error_text


def fetch_one(conn: Connection, sql: str, parameters: dict[str, str]) -> Any:
    """Return the first row or None, in the connection's transaction; begin one if necessary."""
    if not conn.in_transaction():
        conn.begin()
    cursor = conn.connection.cursor()
    try:
        cursor.execute(sql, parameters)
        return cursor.fetchone()
    except _driver(conn).Error as error:
        raise _as_sqlalchemy(conn, cursor, sql, parameters, error) from error
    finally:
        cursor.close()


def _driver(conn: Connection) -> Any:
    return conn.dialect.loaded_dbapi


def _as_sqlalchemy(conn: Connection, cursor: Any, sql: str, parameters: dict[str, str], error: Any) -> Any:
    """Build the error that SQLAlchemy would raise; a lost connection is not returned to the pool."""
    lost = conn.dialect.is_disconnect(error, conn.connection.dbapi_connection, cursor)
    if lost:
        conn.invalidate(error)
    return DBAPIError.instance(
        sql, parameters, error, _driver(conn).Error, connection_invalidated=lost, dialect=conn.dialect
    )


# Count finished jobs, and claim the single coordinator that follows a stage.
# A worker calls `finish_job` at the end of its job and enqueues the coordinator when `claimed` is true. The
# caller owns the transaction: counts, claims and records are committed or lost together. The other functions
# do the same in smaller steps, for existing code that uses them.


def finish_job(
    conn: Connection,
    subdomain: str,
    stage: str,
    *,
    error: str | BaseException | None = None,
    job_key: str | None = None,
) -> JobOutcome:
    """Count a job as completed, or with `error` as failed, and claim the coordinator after the last job.

    One statement and one round trip count and claim. With `job_key`, a repeated delivery changes nothing and
    gets the current counters. Exactly one job of a stage run sees `claimed`, also across parallel stages of a
    step. That job enqueues the coordinator after its commit.
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
    """Count a completed job without a claim."""
    _increment(conn, stage, {"site": subdomain})


def increment_failed(
    conn: Connection, subdomain: str, stage: str, error_message: str, error_class: str
) -> None:
    """Count a failed job and store its error, cut to 500 characters."""
    _increment(conn, stage, {"site": subdomain, "error": error_text(f"{error_class}: {error_message}")})


def should_trigger_coordinator(conn: Connection, subdomain: str, stage: str) -> bool:
    """Check that every job of the site's current stage has finished and the coordinator is unclaimed."""
    row = conn.exec_driver_sql(_sql(conn, stage).trigger, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    return bool(row[0])


def claim_coordinator_enqueue(conn: Connection, subdomain: str) -> bool:
    """Claim the coordinator of the site's current stage: once per stage run, and only after its end.

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
