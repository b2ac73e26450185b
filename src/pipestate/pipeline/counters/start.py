"""Starting stages: the one statement behind `initialize_stage` and `advance_stage`."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from pipestate.pipeline.counters.claims import forget_claim, record_claim
from pipestate.pipeline.counters.statements import DIALECTS, EXISTS, SQL, done, names
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


def initialize_stage(
    conn: Connection, subdomain: str, stage: str, total_jobs: int, *, restart: bool = False
) -> bool:
    """Start a stage of this many jobs; call it before its jobs are enqueued.

    True means: there is no job that could end the stage, so the coordinator is claimed for the caller,
    who enqueues it. A stage that is under way, or whose coordinator is, is not reset (StageRunning)
    without `restart`, which also forgets its job keys. Stages that run side by side are better started
    together, by `advance_stage`.
    """
    require_stage(stage)
    _require_totals({stage: total_jobs})
    running = f"coalesce(current_stage IN ({names(step_of(stage))}), false) AND ({stage}_total > 0 OR coordinator_enqueued)"
    claimed = _start(conn, subdomain, stage, {stage: total_jobs}, "" if restart else f" AND NOT ({running})")
    if claimed is None:
        _current_stage(conn, subdomain)
        raise _running(conn, subdomain, stage)
    return claimed


def advance_stage(
    conn: Connection, subdomain: str, *, to: str, totals: Mapping[str, int] | None = None
) -> bool:
    """The coordinator's transition: to a later stage with its jobs, or to `completed`.

    `totals` says how many jobs each started stage has; several start at once when they run side by side
    (`to="extraction", totals={"compilation": 1, "extraction": 1}`). Counters and job keys of what starts
    are reset, and the claim is released. True means, as in `initialize_stage`, that there is no job and
    the coordinator is claimed for the caller. A coordinator that runs twice moves the site once: the
    second call raises StageRunning or WrongTransition, and writes nothing.
    """
    jobs = dict(totals or {})
    _require_transition(to, jobs)
    if to == COMPLETED:
        _complete(conn, subdomain)
        return False
    idle = "".join(f" AND {stage}_total = 0" for stage in jobs)
    within = f"current_stage IN ({names(step_of(to))}) AND current_stage <> '{to}'{idle}"
    earlier = f"current_stage IN ({names(before(to))}) OR " if before(to) else ""
    claimed = _start(conn, subdomain, to, jobs, f" AND (current_stage IS NULL OR {earlier}{within})")
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


def _start(conn: Connection, subdomain: str, to: str, totals: Mapping[str, int], allowed: str) -> bool | None:
    """Start the stages of `totals`; None where the site is missing or `allowed` does not hold.

    The row is locked by the first statement, so that what follows in the transaction is alone with it.
    """
    peers = [stage for stage in step_of(to) if stage not in totals]
    here = f"coalesce(current_stage IN ({names(step_of(to))}), false)"
    row = _execute(
        conn,
        f"UPDATE sites SET current_stage = '{to}', started_at = {{{{now}}}}, updated_at = {{{{now}}}},"
        f" {_reset(totals, peers, here)}, {_clear_error(totals)},"
        f" coordinator_enqueued = {_nothing_to_do(totals, peers, here)}"
        f" WHERE subdomain = {{{{site}}}}{allowed}"
        f" RETURNING {', '.join(['coordinator_enqueued', *(f'{peer}_total' for peer in peers)])}",
        site=subdomain,
    ).first()
    if row is None:
        return None
    idle = [peer for peer, total in zip(peers, row[1:], strict=True) if total == 0]
    _execute(
        conn,
        f"DELETE FROM pipeline_job WHERE subdomain = {{{{site}}}} AND stage IN ({names((*totals, *idle))})",
        site=subdomain,
    )
    forget_claim(conn, subdomain)
    if row[0]:
        record_claim(conn, subdomain, to)
    return bool(row[0])


def _reset(totals: Mapping[str, int], peers: list[str], here: str) -> str:
    """New counters for what starts; a peer that is not part of the site's present step is over."""
    fresh = [
        f"{stage}_total = {int(total)}, {stage}_completed = 0, {stage}_failed = 0"
        for stage, total in totals.items()
    ]
    kept = [
        f"{peer}_{what} = CASE WHEN {here} THEN {peer}_{what} ELSE 0 END"
        for peer in peers
        for what in ("total", "completed", "failed")
    ]
    return ", ".join(fresh + kept)


def _clear_error(totals: Mapping[str, int]) -> str:
    """The last error stands as long as the failure that it tells of is counted."""
    over = f"last_error_stage IS NULL OR last_error_stage IN ({names(tuple(totals))})"
    columns = ("last_error_stage", "last_error_message", "last_error_at")
    return ", ".join(f"{column} = CASE WHEN {over} THEN NULL ELSE {column} END" for column in columns)


def _nothing_to_do(totals: Mapping[str, int], peers: list[str], here: str) -> str:
    if any(totals.values()):
        return "false"
    return " AND ".join([f"({done(peer)} OR NOT {here})" for peer in peers]) or "true"


def _complete(conn: Connection, subdomain: str) -> None:
    row = _execute(
        conn,
        f"UPDATE sites SET current_stage = '{COMPLETED}', coordinator_enqueued = false,"
        " updated_at = {{now}} WHERE subdomain = {{site}}"
        f" AND coalesce(current_stage, '') <> '{COMPLETED}' RETURNING subdomain",
        site=subdomain,
    ).first()
    if row is None:
        raise WrongTransition(subdomain, _current_stage(conn, subdomain), COMPLETED)
    forget_claim(conn, subdomain)


def _current_stage(conn: Connection, subdomain: str) -> str | None:
    row = _execute(conn, EXISTS, site=subdomain).first()
    if row is None:
        raise UnknownSite(subdomain)
    return None if row[0] is None else str(row[0])


def _running(conn: Connection, subdomain: str, stage: str) -> StageRunning:
    completed, failed, total, _ = conn.exec_driver_sql(
        SQL[conn.dialect.name, stage].look, {"site": subdomain}
    ).one()
    return StageRunning(subdomain, stage, completed, failed, total)


def _execute(conn: Connection, sql: str, **parameters: str) -> Any:
    return conn.exec_driver_sql(DIALECTS[conn.dialect.name](sql), parameters)
