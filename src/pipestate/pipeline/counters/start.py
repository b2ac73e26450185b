"""Start stages: `initialize_stage` for one, `advance_stage` for the coordinator's transitions.

The SQL is filled once for each transition. A transition is the target stage and the stages that
start with it: those of its step with new totals. Another stage of the step keeps its counters if the step is
already running (`{here}`); otherwise it is reset.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection

from pipestate.pipeline.counters import forget_claim, record_claim
from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, DONE, FINISH_SQL
from pipestate.pipeline.sql import ENGINES, fill, quoted
from pipestate.pipeline.stages import (
    COMPLETED,
    InvalidJobs,
    StageRunning,
    UnknownSite,
    WrongTransition,
    before,
    require_stage,
    step_of,
)

# This statement locks the row for the rest of the transaction. The last error stays as long as its failure is
# counted.
START = """
UPDATE sites
SET current_stage = '{to}',
    started_at = {now},
    updated_at = {now},
    {counters},
    last_error_stage = CASE WHEN {error_is_over}
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN {error_is_over}
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN {error_is_over}
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      {nothing_to_do}
    )
WHERE subdomain = :site{and_allowed}
RETURNING {returned}
"""
STARTED = "{stage}_total = :{stage}_total, {stage}_completed = 0, {stage}_failed = 0"
KEPT = """{stage}_total = CASE WHEN {here}
      THEN {stage}_total ELSE 0 END,
    {stage}_completed = CASE WHEN {here}
      THEN {stage}_completed ELSE 0 END,
    {stage}_failed = CASE WHEN {here}
      THEN {stage}_failed ELSE 0 END"""
HERE = "coalesce(current_stage IN ({step}), false)"
ERROR_IS_OVER = "coalesce(last_error_stage IN ({started}), true)"

# initialize_stage: refuse a running stage or coordinator.
NOT_RUNNING = """
  AND NOT (
    {here}
    AND ({to}_total > 0 OR coordinator_enqueued)
  )"""
# advance_stage: allow an earlier step, or the same step if the started stages have not run yet.
FORWARD = """
  AND (
    current_stage IS NULL{or_earlier}
    OR (
      current_stage IN ({step}) AND current_stage <> '{to}'
      AND {none_has_run}
    )
  )"""

FORGET_JOBS = "DELETE FROM pipeline_job WHERE subdomain = :site AND stage IN ({stages})"
COMPLETE = """
UPDATE sites
SET current_stage = '{completed}', coordinator_enqueued = false, updated_at = {now}
WHERE subdomain = :site AND coalesce(current_stage, '') <> '{completed}'
RETURNING subdomain
"""


@dataclass(frozen=True, slots=True)
class StartSql:
    """Statements of one transition on one engine.

    The first three return the new flag, then the total of each of `peers`. `forget_idle` also deletes the job
    keys of a peer that has no jobs left.
    """

    initialize: str
    restart: str
    advance: str
    forget: str
    forget_idle: str
    peers: tuple[str, ...]


@cache
def start_sql(engine: str, to: str, starting: frozenset[str]) -> StartSql:
    """Fill the statements of a transition: the target, and the stages of its step that start."""
    step = step_of(to)
    started = [stage for stage in step if stage in starting]
    peers = tuple(stage for stage in step if stage not in started)
    here = HERE.format(step=quoted(step))
    parts = {
        "to": to,
        "counters": ",\n    ".join(
            [
                *(STARTED.format(stage=stage) for stage in started),
                *(KEPT.format(stage=peer, here=here) for peer in peers),
            ]
        ),
        "error_is_over": ERROR_IS_OVER.format(started=quoted(started)),
        "nothing_to_do": "\n      AND ".join(
            [
                " + ".join(f":{stage}_total" for stage in started) + " = 0",
                *(f"({DONE.format(stage=peer)}\n        OR NOT {here})" for peer in peers),
            ]
        ),
        "returned": ", ".join(["coordinator_enqueued", *(f"{peer}_total" for peer in peers)]),
    }
    forward = FORWARD.format(
        to=to,
        step=quoted(step),
        or_earlier=f"\n    OR current_stage IN ({quoted(before(to))})" if before(to) else "",
        none_has_run=" AND ".join(f"{stage}_total = 0" for stage in started),
    )
    return StartSql(
        initialize=fill(engine, START, and_allowed=NOT_RUNNING.format(here=here, to=to), **parts),
        restart=fill(engine, START, and_allowed="", **parts),
        advance=fill(engine, START, and_allowed=forward, **parts),
        forget=fill(engine, FORGET_JOBS, stages=quoted(started)),
        forget_idle=fill(engine, FORGET_JOBS, stages=quoted(step)),
        peers=peers,
    )


COMPLETE_SQL = {engine: fill(engine, COMPLETE, completed=COMPLETED) for engine in ENGINES}


def initialize_stage(
    conn: Connection, subdomain: str, stage: str, total_jobs: int, *, restart: bool = False
) -> bool:
    """Start a stage of this many jobs; call it before its jobs are enqueued.

    True means that the stage has no jobs to end it: the coordinator is claimed for the caller, who enqueues
    it. A running stage or coordinator raises StageRunning, unless `restart` is set. `restart` also deletes
    the job keys. Start parallel stages together, with `advance_stage`.
    """
    require_stage(stage)
    _require_totals({stage: total_jobs})
    sql = start_sql(conn.dialect.name, stage, frozenset({stage}))
    statement = sql.restart if restart else sql.initialize
    claimed = _start(conn, sql, statement, subdomain, stage, {stage: total_jobs})
    if claimed is None:
        _current_stage(conn, subdomain)
        raise _running(conn, subdomain, stage)
    return claimed


def advance_stage(
    conn: Connection, subdomain: str, *, to: str, totals: Mapping[str, int] | None = None
) -> bool:
    """Move the site, as its coordinator: to a later stage with its jobs, or to `completed`.

    `totals` is the number of jobs of each started stage; parallel stages start together (`to="extraction",
    totals={"compilation": 1, "extraction": 1}`). Counters and job keys of started stages are reset, and the
    claim is released. As in `initialize_stage`, True means zero jobs and a coordinator claimed for the
    caller. A coordinator that runs twice moves the site once: the second call raises StageRunning or
    WrongTransition, and writes nothing.
    """
    jobs = dict(totals or {})
    _require_transition(to, jobs)
    if to == COMPLETED:
        if conn.exec_driver_sql(COMPLETE_SQL[conn.dialect.name], {"site": subdomain}).first() is None:
            raise WrongTransition(subdomain, _current_stage(conn, subdomain), COMPLETED)
        forget_claim(conn, subdomain)
        return False
    sql = start_sql(conn.dialect.name, to, frozenset(jobs))
    claimed = _start(conn, sql, sql.advance, subdomain, to, jobs)
    if claimed is None:
        current = _current_stage(conn, subdomain)
        if current in step_of(to):
            raise _running(conn, subdomain, to)
        raise WrongTransition(subdomain, current, to)
    return claimed


def _require_totals(totals: Mapping[str, int]) -> None:
    for stage, total in totals.items():
        if total < 0:
            raise InvalidJobs(f"{stage} cannot have {total} jobs: give 0 or more")


def _require_transition(to: str, totals: Mapping[str, int]) -> None:
    for stage in totals:
        require_stage(stage)
    if to == COMPLETED:
        if totals:
            raise InvalidJobs("a completed site has no jobs: leave totals empty")
        return
    strange = [stage for stage in totals if stage not in step_of(to)]
    if strange:
        raise InvalidJobs(f"{', '.join(strange)} does not run side by side with {to}: advance there later")
    if to not in totals:
        raise InvalidJobs(f"totals does not say how many jobs {to} has")
    _require_totals(totals)


def _start(
    conn: Connection, sql: StartSql, statement: str, subdomain: str, to: str, totals: Mapping[str, int]
) -> bool | None:
    """Start the stages of `totals`; return whether the coordinator was claimed, None if the site differs."""
    site = {"site": subdomain}
    new = {f"{stage}_total": int(total) for stage, total in totals.items()}
    row = conn.exec_driver_sql(statement, {**site, **new}).first()
    if row is None:
        return None
    claimed, *peer_totals = row
    conn.exec_driver_sql(sql.forget_idle if 0 in peer_totals else sql.forget, site)
    forget_claim(conn, subdomain)
    if claimed:
        record_claim(conn, subdomain, to)
    return bool(claimed)


def _current_stage(conn: Connection, subdomain: str) -> str | None:
    row = conn.exec_driver_sql(CLAIM_SQL[conn.dialect.name].current_stage, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    return None if row[0] is None else str(row[0])


def _running(conn: Connection, subdomain: str, stage: str) -> StageRunning:
    sql = FINISH_SQL[conn.dialect.name, stage].read
    completed, failed, total, _ = conn.exec_driver_sql(sql, {"site": subdomain}).one()
    return StageRunning(subdomain, stage, completed, failed, total)
