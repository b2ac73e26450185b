"""Write one recovery: the site, its job keys, its claim and the calls, in one transaction or not at all."""

from typing import Any

from sqlalchemy import Connection, delete, insert, literal_column, select, update
from sqlalchemy.exc import DBAPIError

from pipestate.pipeline.counters.claims import forget_claim, record_claim
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile.decide import Action, Recovery
from pipestate.pipeline.reconcile.engine import engine_of
from pipestate.pipeline.reconcile.stuck import version_of_row
from pipestate.pipeline.sql import NOW
from pipestate.schema import pipeline_job, sites


def write_recovery(
    conn: Connection, queues: Queues, expected: Result[Recovery], *, manual: bool
) -> Result[Recovery]:
    """Carry out a decision. The calls are sent inside the transaction: if the queue refuses, nothing is written.

    The other way round, a kill between the two leaves calls in the queue that the database does not know
    of: the next run finds them alive, and whoever they move finds the site as it was.
    """
    recovery = expected.subject
    if not expected.outcome.done:
        return expected
    try:
        with conn.begin():
            engine_of(conn).prepare_write(conn)
            if not _take(conn, recovery, manual=manual):
                return Result(recovery, SubjectOutcome.SKIPPED, "it has moved on meanwhile")
            queues.send(recovery.calls)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Result(recovery, SubjectOutcome.FAILED, " ".join(str(error.orig).split()))
    return expected


def _take(conn: Connection, recovery: Recovery, *, manual: bool) -> bool:
    """Write the decision down; False when the site is no longer the one that it was made for."""
    site = recovery.site
    same = (
        sites.c.subdomain == site.subdomain,
        sites.c.current_stage == site.stage,
        sites.c.coordinator_enqueued.is_(site.claimed),
        version_of_row().is_not_distinct_from(site.version),
    )
    if conn.execute(update(sites).where(*same).values(_values(conn, recovery))).rowcount == 0:
        return False
    _set_keys(conn, recovery)
    if manual:
        forget_claim(conn, site.subdomain)
    claims = recovery.action is Action.COORDINATOR
    if claims or not site.claimed:  # else the jobs' own claim has counted that try
        record_claim(conn, site.subdomain, site.stage)
    return True


def _values(conn: Connection, recovery: Recovery) -> dict[str, Any]:
    return {
        "updated_at": literal_column(NOW[conn.dialect.name]),
        "coordinator_enqueued": recovery.action is Action.COORDINATOR,
        **{
            f"{stage}_{what}": getattr(counters, what)
            for stage, counters in recovery.counters.items()
            for what in ("total", "completed", "failed")
        },
    }


def _set_keys(conn: Connection, recovery: Recovery) -> None:
    """Let what is sent again count; what has succeeded must not, should its job still come to its end."""
    site, keys = recovery.site.subdomain, pipeline_job.c
    here = (keys.subdomain == site, keys.stage.in_(recovery.counters))
    if recovery.action is Action.JOBS:
        conn.execute(delete(pipeline_job).where(*here))
    known = set(conn.scalars(select(keys.job_key).where(*here)))
    rows = [
        {"subdomain": site, "stage": stage, "job_key": key}
        for stage in recovery.counters
        for key in recovery.succeeded - known
    ]
    if rows:
        conn.execute(insert(pipeline_job), rows)
