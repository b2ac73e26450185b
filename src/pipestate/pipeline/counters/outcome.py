"""Counters returned to a finished job, and the claim record: its age and the attempts at the step."""

from typing import NamedTuple

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL, FinishSql
from pipestate.pipeline.stages import StageNotStarted, UnknownSite


def record_claim(conn: Connection, subdomain: str, stage: str) -> None:
    """Record another attempt at this step, from now; a claim of another step restarts at one."""
    conn.exec_driver_sql(FINISH_SQL[conn.dialect.name, stage].record_claim, {"site": subdomain})


def forget_claim(conn: Connection, subdomain: str) -> None:
    """Delete all attempts of this site."""
    conn.exec_driver_sql(CLAIM_SQL[conn.dialect.name].forget_claim, {"site": subdomain})


# Result of a finished job: the counters of its stage.


class JobOutcome(NamedTuple):
    """Counters of the stage after a job, and whether this job starts the coordinator."""

    completed: int
    failed: int
    total: int
    claimed: bool


def read_counters(conn: Connection, sql: FinishSql, stage: str, subdomain: str) -> JobOutcome:
    """Return the current counters; raise if the job cannot be counted."""
    row = conn.exec_driver_sql(sql.read, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    if not row[3]:
        raise StageNotStarted(subdomain, stage)
    return JobOutcome(row[0], row[1], row[2], False)
