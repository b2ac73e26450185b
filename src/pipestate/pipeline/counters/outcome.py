"""What a job gets back when it has finished: the counters of its stage."""

from typing import NamedTuple

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.stages import StageNotStarted, UnknownSite


class JobOutcome(NamedTuple):
    """The stage's counters after a job, and whether this job is the one that starts the coordinator."""

    completed: int
    failed: int
    total: int
    claimed: bool


def read_counters(conn: Connection, sql: FinishSql, stage: str, subdomain: str) -> JobOutcome:
    """Return the counters as they are; raise where a job has nothing to be counted in."""
    row = conn.exec_driver_sql(sql.read, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    if not row[3]:
        raise StageNotStarted(subdomain, stage)
    return JobOutcome(row[0], row[1], row[2], False)
