"""Finishing a job on SQLite beyond the first statement: a statement a step, for the file has one writer."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.claims import record_claim
from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome, read_counters


def finish_keyed(
    conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
) -> JobOutcome:
    """Count a job once, whoever delivers it again, and claim the coordinator if it was the last."""
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
    """Count a job of a site that is already claimed (one too many, or late); refuse one that cannot be counted."""
    row = conn.exec_driver_sql(sql.finish_late["error" in parameters], parameters).first()
    if row is None:
        return read_counters(conn, sql, stage, parameters["site"])
    return JobOutcome(row[0], row[1], row[2], False)
