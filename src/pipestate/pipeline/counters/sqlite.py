"""Finish a job on SQLite after the first statement: one statement per step, with a single writer."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome, read_counters, record_claim


def finish_keyed(
    conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
) -> JobOutcome:
    """Count a job once, despite repeated delivery, and claim the coordinator after the last job."""
    site = {"site": parameters["site"], "key": key}
    if conn.exec_driver_sql(sql.remember, site).first() is None:
        return read_counters(conn, sql, stage, parameters["site"])
    row = conn.exec_driver_sql(sql.finish["error" in parameters], parameters).first()
    if row is None:
        return finish_late(conn, sql, stage, parameters)
    if row[3]:
        record_claim(conn, parameters["site"], stage)
    return JobOutcome(row[0], row[1], row[2], bool(row[3]))


def finish_late(conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]) -> JobOutcome:
    """Count an extra or late job of a claimed site; refuse a job that cannot be counted."""
    row = conn.exec_driver_sql(sql.finish_late["error" in parameters], parameters).first()
    if row is None:
        return read_counters(conn, sql, stage, parameters["site"])
    return JobOutcome(row[0], row[1], row[2], False)
