"""Writes of a reconciliation: one recovery per transaction, the run's record, and its history lines."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, String, cast, delete, insert, inspect, literal_column, select, update
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.database.postgresql import SETTINGS
from pipestate.ledger.history import Entry, Source, Wanted
from pipestate.ledger.record import who
from pipestate.ledger.tables import in_utc
from pipestate.pipeline.counters import forget_claim, record_claim
from pipestate.pipeline.planning import RECONCILED, Result, SubjectOutcome, Trigger, count
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile.decide import Action, Recovery
from pipestate.pipeline.schema import pipeline_job, pipeline_reconciliation, sites
from pipestate.pipeline.sql import NOW
from pipestate.pipeline.stages import error_text

KIND = "reconciliation"
# Maximum number of sites that a run records individually.
DETAILS = 1000


def begin_reconciliation(conn: Connection, *, trigger: Trigger, revision: str | None) -> int:
    """Record the start of a run; return its id. A run without an end was killed or aborted."""
    table = pipeline_reconciliation
    values = {"triggered_by": trigger.value, "actor": who(), "revision": revision}
    with conn.begin():
        if not inspect(conn).has_table(table.name):
            message = "this database has no table of reconciliations yet: run alembic upgrade 0003 first"
            raise ConfigError(message)
        return int(conn.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())


def end_reconciliation(
    conn: Connection, run: int, results: list[Result[Recovery]], *, broke_off: str | None = None
) -> None:
    """Record the results of a run; an aborted run has no end, and stores the reason."""
    details = [
        {
            "subdomain": recovery.site.subdomain,
            "stage": recovery.site.stage,
            "action": str(recovery.action),
            "result": str(outcome),
            "reason": error_text(reason or ""),
        }
        for recovery, outcome, reason in results[:DETAILS]
    ]
    if broke_off:
        details.append({"error": broke_off})
    table = pipeline_reconciliation
    values: dict[str, Any] = {
        "found": len(results),
        "details": details or None,
        **count(results, *RECONCILED),
    }
    if broke_off is None:
        values["finished_at"] = literal_column(NOW[conn.dialect.name])
    with conn.begin():
        conn.execute(update(table).where(table.c.id == run).values(values))


def _lines(connection: Connection, wanted: Wanted) -> Sequence[Entry]:
    table = pipeline_reconciliation
    if wanted.runbook is not None or not inspect(connection).has_table(table.name):
        return []
    return [
        Entry(
            in_utc(row.started_at),
            row.id,
            KIND,
            row.actor,
            f"found {row.found}, recovered {row.recovered} ({row.triggered_by})",
            row.revision,
        )
        for row in connection.execute(wanted.newest(table, table.c.started_at))
    ]


history = Source((KIND,), _lines)


# Write one recovery: the site, its job keys, its claim and the calls, in one transaction.


def write_recovery(
    conn: Connection, queues: Queues, expected: Result[Recovery], *, named: bool
) -> Result[Recovery]:
    """Carry out a decision. The calls are sent inside the transaction, so a refusing queue rolls it back.

    A kill between send and commit leaves calls in the queue that the database does not record. The next run
    finds them alive, and their workers find the site unchanged.
    """
    recovery = expected.subject
    if not expected.outcome.done:
        return expected
    try:
        with conn.begin():
            for setting in PREPARE[conn.dialect.name]:
                conn.exec_driver_sql(setting)
            if not _take(conn, recovery, named=named):
                return Result(recovery, SubjectOutcome.SKIPPED, "the site advanced meanwhile")
            queues.send(recovery.calls)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Result(recovery, SubjectOutcome.FAILED, " ".join(str(error.orig).split()))
    return expected


def _take(conn: Connection, recovery: Recovery, *, named: bool) -> bool:
    """Write the decision; return False if the site changed after the decision."""
    site = recovery.site
    same = (
        sites.c.subdomain == site.subdomain,
        sites.c.current_stage == site.stage,
        sites.c.coordinator_enqueued.is_(site.claimed),
        cast(sites.c.updated_at, String).is_not_distinct_from(site.version),
    )
    claims = recovery.action is Action.COORDINATOR
    values = {
        "updated_at": literal_column(NOW[conn.dialect.name]),
        "coordinator_enqueued": claims,
        **{
            f"{stage}_{what}": value
            for stage, counters in recovery.counters.items()
            for what, value in counters._asdict().items()
        },
    }
    if conn.execute(update(sites).where(*same).values(values)).rowcount == 0:
        return False
    _set_keys(conn, recovery)
    if named:
        forget_claim(conn, site.subdomain)
    if claims or not site.claimed:  # else the jobs' own claim has counted this attempt
        record_claim(conn, site.subdomain, site.stage)
    return True


# The row version is a text that depends on the time zone: the reader's settings apply. SQLite stores text.
PREPARE = {"postgresql": (*SETTINGS, "SET LOCAL lock_timeout = '2s'"), "sqlite": ()}


def _set_keys(conn: Connection, recovery: Recovery) -> None:
    """Reset the job keys: resent jobs count again, and succeeded jobs never count twice."""
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
