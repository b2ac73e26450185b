"""Count finished jobs and claim coordinators, with one statement on the driver's own cursor.

A worker calls `finish_job` at the end of its job and enqueues the coordinator when `claimed` is true. The
caller owns the transaction: counts, claims and records are committed or lost together. The other functions
do the same in smaller steps, for existing code that uses them.

Every job makes this call. SQLAlchemy's execution would double the driver's cost, so only its transaction
and its errors are used. The statement bypasses the engine's events and echo.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL, FinishSql
from pipestate.pipeline.stages import InvalidJobs, StageNotStarted, UnknownSite, UnknownStage, error_text


class JobOutcome(NamedTuple):
    """Counters of the stage after a job, and whether this job starts the coordinator."""

    completed: int
    failed: int
    total: int
    claimed: bool


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
        return FINISH_OTHERWISE[conn.dialect.name](conn, sql, stage, {**parameters, "key": job_key})
    row = fetch_one(conn, sql.finish[error is not None], parameters)
    if row is None:
        return FINISH_OTHERWISE[conn.dialect.name](conn, sql, stage, parameters)
    if row[3]:
        record_claim(conn, subdomain, stage)
    return JobOutcome(row[0], row[1], row[2], bool(row[3]))


def fetch_one(conn: Connection, sql: str, parameters: dict[str, str]) -> Any:
    """Return the first row or None, in the connection's transaction; begin one if necessary.

    Errors are those of SQLAlchemy; a lost connection is not returned to the pool.
    """
    if not conn.in_transaction():
        conn.begin()
    cursor, dialect = conn.connection.cursor(), conn.dialect
    try:
        cursor.execute(sql, parameters)
        return cursor.fetchone()
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, conn.connection.dbapi_connection, cursor)
        if lost:
            conn.invalidate(error)
        base = dialect.loaded_dbapi.Error
        raise DBAPIError.instance(
            sql, parameters, error, base, connection_invalidated=lost, dialect=dialect
        ) from error
    finally:
        cursor.close()


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


def record_claim(conn: Connection, subdomain: str, stage: str) -> None:
    """Record another attempt at this step, from now; a claim of another step restarts at one."""
    conn.exec_driver_sql(FINISH_SQL[conn.dialect.name, stage].record_claim, {"site": subdomain})


def forget_claim(conn: Connection, subdomain: str) -> None:
    """Delete all attempts of this site."""
    conn.exec_driver_sql(CLAIM_SQL[conn.dialect.name].forget_claim, {"site": subdomain})


def _sql(conn: Connection, stage: str) -> FinishSql:
    try:
        return FINISH_SQL[conn.dialect.name, stage]
    except KeyError:
        raise UnknownStage(stage) from None


def _increment(conn: Connection, stage: str, parameters: dict[str, str]) -> None:
    sql = _sql(conn, stage)
    if conn.exec_driver_sql(sql.increment["error" in parameters], parameters).rowcount == 0:
        _read_counters(conn, sql, stage, parameters["site"])


def _read_counters(conn: Connection, sql: FinishSql, stage: str, subdomain: str) -> JobOutcome:
    """Return the current counters; raise if the job cannot be counted."""
    row = conn.exec_driver_sql(sql.read, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    if not row[3]:
        raise StageNotStarted(subdomain, stage)
    return JobOutcome(row[0], row[1], row[2], False)


# Jobs with a key, which count once despite repeated delivery, and extra or late jobs of a claimed site.


def _finish_locked(conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]) -> JobOutcome:
    """Finish a job on PostgreSQL in one round trip that locks the row."""
    statements = sql.finish_keyed if "key" in parameters else sql.finish_locked
    row = conn.exec_driver_sql(statements["error" in parameters], parameters).first()
    if row is None:
        raise UnknownSite(parameters["site"])
    if not row[4]:
        raise StageNotStarted(parameters["site"], stage)
    return JobOutcome(row[0], row[1], row[2], row[3])


def _finish_stepwise(conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]) -> JobOutcome:
    """Finish a job on SQLite, which has a single writer, with one statement per step."""
    row, failed = None, "error" in parameters
    if "key" in parameters:
        if conn.exec_driver_sql(sql.remember, parameters).first() is None:
            return _read_counters(conn, sql, stage, parameters["site"])
        row = conn.exec_driver_sql(sql.finish[failed], parameters).first()
    if row is None:
        late = conn.exec_driver_sql(sql.finish_late[failed], parameters).first()
        if late is None:
            return _read_counters(conn, sql, stage, parameters["site"])
        return JobOutcome(late[0], late[1], late[2], False)
    if row[3]:
        record_claim(conn, parameters["site"], stage)
    return JobOutcome(row[0], row[1], row[2], bool(row[3]))


FINISH_OTHERWISE = {"postgresql": _finish_locked, "sqlite": _finish_stepwise}
