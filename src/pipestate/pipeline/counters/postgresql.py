"""Finish a job on PostgreSQL after the first statement: one round trip that locks the row."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome
from pipestate.pipeline.stages import StageNotStarted, UnknownSite


def finish_keyed(
    conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
) -> JobOutcome:
    """Count a job once, despite repeated delivery, and claim the coordinator after the last job."""
    return _finish_locked(conn, sql.finish_keyed, stage, parameters | {"key": key})


def finish_late(conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]) -> JobOutcome:
    """Count an extra or late job of a claimed site; refuse a job that cannot be counted."""
    return _finish_locked(conn, sql.finish_locked, stage, parameters)


def _finish_locked(
    conn: Connection, statements: tuple[str, str], stage: str, parameters: dict[str, str]
) -> JobOutcome:
    row = conn.exec_driver_sql(statements["error" in parameters], parameters).first()
    if row is None:
        raise UnknownSite(parameters["site"])
    if not row[4]:
        raise StageNotStarted(parameters["site"], stage)
    return JobOutcome(row[0], row[1], row[2], row[3])
