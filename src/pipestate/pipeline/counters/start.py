"""Start stages: `initialize_stage` for one, `advance_stage` for the coordinator's transitions."""

from collections.abc import Mapping

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL
from pipestate.pipeline.counters.outcome import forget_claim, record_claim
from pipestate.pipeline.counters.start_sql import COMPLETE_SQL, START_SQL, StartSql
from pipestate.pipeline.stages import (
    COMPLETED,
    InvalidJobs,
    StageRunning,
    UnknownSite,
    WrongTransition,
    require_stage,
    step_of,
)


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
    sql = START_SQL[conn.dialect.name, (stage, frozenset({stage}))]
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
        _complete(conn, subdomain)
        return False
    sql = START_SQL[conn.dialect.name, (to, frozenset(jobs))]
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
    """Start the stages of `totals`; return whether the coordinator was claimed, or None if the site did not match."""
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


def _complete(conn: Connection, subdomain: str) -> None:
    row = conn.exec_driver_sql(COMPLETE_SQL[conn.dialect.name], {"site": subdomain}).first()
    if row is None:
        raise WrongTransition(subdomain, _current_stage(conn, subdomain), COMPLETED)
    forget_claim(conn, subdomain)


def _current_stage(conn: Connection, subdomain: str) -> str | None:
    row = conn.exec_driver_sql(CLAIM_SQL[conn.dialect.name].current_stage, {"site": subdomain}).first()
    if row is None:
        raise UnknownSite(subdomain)
    return None if row[0] is None else str(row[0])


def _running(conn: Connection, subdomain: str, stage: str) -> StageRunning:
    sql = FINISH_SQL[conn.dialect.name, stage].read
    completed, failed, total, _ = conn.exec_driver_sql(sql, {"site": subdomain}).one()
    return StageRunning(subdomain, stage, completed, failed, total)
