"""Writes of a reconciliation: one recovery per transaction, the run's record, and its history lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, inspect, literal_column, select, update
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.ledger.history import Entry, Source, Wanted
from pipestate.ledger.record import who
from pipestate.ledger.tables import in_utc
from pipestate.pipeline.counters.outcome import forget_claim, record_claim
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile.decide import Action, Recovery
from pipestate.pipeline.reconcile.engine import engine_of
from pipestate.pipeline.reconcile.stuck import version_of_row
from pipestate.pipeline.schema.queue import pipeline_reconciliation
from pipestate.pipeline.schema.sites import pipeline_job, sites
from pipestate.pipeline.sql import NOW

KIND = "reconciliation"
# Maximum number of sites that a run records individually.
DETAILS = 1000
# The time of writing, not of the transaction's start.
CLOCK = {"postgresql": func.clock_timestamp(), "sqlite": func.now()}


def begin_reconciliation(connection: Connection, *, manual: bool, revision: str | None) -> int:
    """Record the start of a run; return its id. A run without an end was killed or aborted."""
    if not inspect(connection).has_table(pipeline_reconciliation.name):
        raise ConfigError(
            "this database has no account of reconciliations yet: run alembic upgrade 0003 first"
        )
    table = pipeline_reconciliation
    values = {"triggered_by": "manual" if manual else "cron", "actor": who(), "revision": revision}
    return int(connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())


def end_reconciliation(
    connection: Connection,
    run: int,
    counts: Mapping[str, int],
    details: list[dict[str, str]],
    *,
    broke_off: str | None,
) -> None:
    """Record the results of a run; an aborted run has no end, and stores the reason."""
    table = pipeline_reconciliation
    told = details[:DETAILS] + ([{"error": broke_off}] if broke_off else [])
    values: dict[str, Any] = {"found": len(details), "details": told or None, **counts}
    if broke_off is None:
        values["finished_at"] = CLOCK[connection.dialect.name]
    connection.execute(update(table).where(table.c.id == run).values(values))


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
    conn: Connection, queues: Queues, expected: Result[Recovery], *, manual: bool
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
    """Write the decision; return False if the site changed after the decision."""
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
    if claims or not site.claimed:  # else the jobs' own claim has counted this attempt
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
