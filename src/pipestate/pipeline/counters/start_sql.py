"""SQL that starts stages, filled once for each transition at import.

A transition is the target stage and the stages that start with it: those of its step with new totals. Another
stage of the step keeps its counters if the step is already running (`{here}`); otherwise it is reset.
"""

from dataclasses import dataclass
from itertools import combinations

from pipestate.pipeline.counters.finish_sql import DONE
from pipestate.pipeline.sql import ENGINES, fill, quoted
from pipestate.pipeline.stages import COMPLETED, STEPS, before

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

Transition = tuple[str, frozenset[str]]  # target, and started stages


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


def _start_sql(engine: str, step: tuple[str, ...], to: str, started: tuple[str, ...]) -> StartSql:
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


def transitions() -> list[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """List every step, each of its target stages, and each set of stages that can start with that target."""
    return [
        (step, to, started)
        for step in STEPS
        for to in step
        for size in range(1, len(step) + 1)
        for started in combinations(step, size)
        if to in started
    ]


START_SQL: dict[tuple[str, Transition], StartSql] = {
    (engine, (to, frozenset(started))): _start_sql(engine, step, to, started)
    for engine in ENGINES
    for step, to, started in transitions()
}
COMPLETE_SQL = {engine: fill(engine, COMPLETE, completed=COMPLETED) for engine in ENGINES}
