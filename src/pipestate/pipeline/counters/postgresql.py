"""Finishing a job on PostgreSQL beyond the first statement: one that locks the row, and says all in one round trip."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome
from pipestate.pipeline.stages import StageNotStarted, UnknownSite


def finish_keyed(
    conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
) -> JobOutcome:
    """Count a job once, whoever delivers it again, and claim the coordinator if it was the last."""
    return _finish_locked(conn, sql.finish_keyed, stage, parameters | {"key": key})


def finish_late(conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]) -> JobOutcome:
    """Count a job of a site that is already claimed (one too many, or late); refuse one that cannot be counted."""
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
