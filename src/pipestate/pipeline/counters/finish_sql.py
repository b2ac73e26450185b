"""SQL that counts jobs and claims coordinators, filled once for each stage at import.

`{stage}` is a stage, and so the prefix of its three counter columns; `{step}` lists its parallel stages. Both
come from STAGES and STEPS only. `tests/rendered/counters` shows every statement in full.
"""

from dataclasses import dataclass

from pipestate.pipeline.sql import ENGINES, NOW, fill, quoted
from pipestate.pipeline.stages import STAGES, STEPS, step_of

# Assignments that count a job, by its result.
COUNTED = {
    "completed": """{stage}_completed = sites.{stage}_completed + 1,
    updated_at = {now}""",
    "failed": """{stage}_failed = sites.{stage}_failed + 1,
    updated_at = {now},
    last_error_stage = '{stage}',
    last_error_message = :error,
    last_error_at = {now}""",
}
DONE = "sites.{stage}_completed + sites.{stage}_failed >= sites.{stage}_total"

# finish_job: count a job of the site's current step, and claim the coordinator if it is unclaimed. The WHERE
# guarantees that the old flag is false, also after waiting for another writer of the row (PostgreSQL
# evaluates it again on the new version). So the new flag means "this statement claimed". CASE combines the
# conditions into one, so the planner does not compare them with every partial index for every job.
FINISH = """
UPDATE sites
SET {counted},
    coordinator_enqueued = (
      sites.{stage}_completed + sites.{stage}_failed + 1 >= sites.{stage}_total{and_peers_done}
    )
WHERE subdomain = :site
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ({step}) AND {stage}_total > 0 END
RETURNING {stage}_completed, {stage}_failed, {stage}_total, coordinator_enqueued
"""

# SQLite, which has one writer: count a job of a site that is claimed or has advanced.
FINISH_LATE = """
UPDATE sites
SET {counted}
WHERE subdomain = :site
  AND (coordinator_enqueued OR NOT current_stage IN ({step}))
  AND {stage}_total > 0
  AND current_stage IS NOT NULL
RETURNING {stage}_completed, {stage}_failed, {stage}_total
"""

# PostgreSQL: all cases of finishing a job, in one statement that locks the row first.
# 1. `site` waits for the row and reads its newest version, including the old flag.
# 2. `fresh` has the site if this job counts: a job key must be new.
# 3. `counted` counts and sets the flag, also from the newest version.
# 4. `claim` records the first claim, with its age and attempts.
FINISH_LOCKED = """
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         {stage}_total > 0 AND current_stage IS NOT NULL AS started,
         {stage}_completed, {stage}_failed, {stage}_total
  FROM sites
  WHERE subdomain = :site
  FOR NO KEY UPDATE
), fresh AS (
  {fresh}
), counted AS (
  UPDATE sites
  SET {counted},
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ({step})
      AND sites.{stage}_completed + sites.{stage}_failed + 1 >= sites.{stage}_total{and_peers_done}
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.{stage}_completed, sites.{stage}_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, '{stage}', {now}, 1 FROM counted WHERE claimed
  {once_more}
)
SELECT coalesce(counted.{stage}_completed, site.{stage}_completed),
       coalesce(counted.{stage}_failed, site.{stage}_failed),
       site.{stage}_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true
"""
FRESH = "SELECT subdomain FROM site WHERE started"
FRESH_KEYED = """INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, '{stage}', :key, {now} FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain"""

# SQLite: store a job's key if the stage is started; a known key returns no row.
REMEMBER = """
INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
SELECT subdomain, '{stage}', :key, {now}
FROM sites
WHERE subdomain = :site AND {stage}_total > 0 AND current_stage IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING subdomain
"""

# increment_completed, increment_failed: count a job without a claim.
INCREMENT = """
UPDATE sites
SET {counted}
WHERE subdomain = :site AND {stage}_total > 0 AND current_stage IS NOT NULL
"""

# Read the current counters, and whether a job can be counted in them.
READ = """
SELECT {stage}_completed, {stage}_failed, {stage}_total,
       {stage}_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = :site
"""

# should_trigger_coordinator: false for a step without jobs, because its starter claims at once.
TRIGGER = """
SELECT current_stage IN ({step})
       AND {stage}_completed + {stage}_failed >= {stage}_total{and_peers_done}
       AND {any_total} > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = :site
"""

# Record another attempt at this step, from now; a claim of another step restarts at one.
ONCE_MORE = """ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = {now},
      attempts = CASE WHEN pipeline_claim.stage IN ({step})
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage"""
RECORD_CLAIM = """
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (:site, '{stage}', {now}, 1)
{once_more}
"""
FORGET_CLAIM = "DELETE FROM pipeline_claim WHERE subdomain = :site"

# claim_coordinator_enqueue: claim the site's current step after its end.
CLAIM = """
UPDATE sites
SET coordinator_enqueued = true, updated_at = {now}
WHERE subdomain = :site
  AND NOT coordinator_enqueued
  AND (
    {any_step_done}
  )
RETURNING current_stage
"""
CURRENT_STAGE = "SELECT current_stage FROM sites WHERE subdomain = :site"


@dataclass(frozen=True, slots=True)
class FinishSql:
    """Statements of one stage on one engine; counting statements come in pairs: completed, failed."""

    finish: tuple[str, str]
    finish_late: tuple[str, str]
    finish_locked: tuple[str, str]
    finish_keyed: tuple[str, str]
    increment: tuple[str, str]
    remember: str
    read: str
    trigger: str
    record_claim: str


@dataclass(frozen=True, slots=True)
class ClaimSql:
    """Statements without a stage, on one engine."""

    claim: str
    forget_claim: str
    current_stage: str


def _finish_sql(engine: str, stage: str) -> FinishSql:
    step = step_of(stage)
    parts = {
        "stage": stage,
        "step": quoted(step),
        "and_peers_done": "".join(f"\n      AND {DONE.format(stage=peer)}" for peer in step if peer != stage),
        "any_total": " + ".join(f"{peer}_total" for peer in step),
    }

    def part(text: str) -> str:
        return text.format(now=NOW[engine], **parts)

    def one(template: str, **more: str) -> str:
        return fill(engine, template, **parts, **{name: part(text) for name, text in more.items()})

    def pair(template: str, **more: str) -> tuple[str, str]:
        return (
            one(template, counted=COUNTED["completed"], **more),
            one(template, counted=COUNTED["failed"], **more),
        )

    return FinishSql(
        finish=pair(FINISH),
        finish_late=pair(FINISH_LATE),
        finish_locked=pair(FINISH_LOCKED, fresh=FRESH, once_more=ONCE_MORE),
        finish_keyed=pair(FINISH_LOCKED, fresh=FRESH_KEYED, once_more=ONCE_MORE),
        increment=pair(INCREMENT),
        remember=one(REMEMBER),
        read=one(READ),
        trigger=one(TRIGGER),
        record_claim=one(RECORD_CLAIM, once_more=ONCE_MORE),
    )


def _claim_sql(engine: str) -> ClaimSql:
    steps = [
        "\n        AND ".join(
            [f"current_stage IN ({quoted(step)})", *(DONE.format(stage=peer) for peer in step)]
        )
        for step in STEPS
    ]
    return ClaimSql(
        claim=fill(engine, CLAIM, any_step_done="\n    OR ".join(steps)),
        forget_claim=fill(engine, FORGET_CLAIM),
        current_stage=fill(engine, CURRENT_STAGE),
    )


FINISH_SQL = {(engine, stage): _finish_sql(engine, stage) for engine in ENGINES for stage in STAGES}
CLAIM_SQL = {engine: _claim_sql(engine) for engine in ENGINES}
