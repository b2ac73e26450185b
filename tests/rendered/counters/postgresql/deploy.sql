-- finish: a job has completed
UPDATE sites
SET deploy_completed = sites.deploy_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('deploy') AND deploy_total > 0 END
RETURNING deploy_completed, deploy_failed, deploy_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET deploy_failed = sites.deploy_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'deploy',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('deploy') AND deploy_total > 0 END
RETURNING deploy_completed, deploy_failed, deploy_total, coordinator_enqueued;

-- finish_locked: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         deploy_total > 0 AND current_stage IS NOT NULL AS started,
         deploy_completed, deploy_failed, deploy_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET deploy_completed = sites.deploy_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('deploy')
      AND sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.deploy_completed, sites.deploy_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'deploy', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('deploy')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.deploy_completed, site.deploy_completed),
       coalesce(counted.deploy_failed, site.deploy_failed),
       site.deploy_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_locked: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         deploy_total > 0 AND current_stage IS NOT NULL AS started,
         deploy_completed, deploy_failed, deploy_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET deploy_failed = sites.deploy_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'deploy',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('deploy')
      AND sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.deploy_completed, sites.deploy_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'deploy', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('deploy')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.deploy_completed, site.deploy_completed),
       coalesce(counted.deploy_failed, site.deploy_failed),
       site.deploy_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         deploy_total > 0 AND current_stage IS NOT NULL AS started,
         deploy_completed, deploy_failed, deploy_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'deploy', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET deploy_completed = sites.deploy_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('deploy')
      AND sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.deploy_completed, sites.deploy_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'deploy', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('deploy')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.deploy_completed, site.deploy_completed),
       coalesce(counted.deploy_failed, site.deploy_failed),
       site.deploy_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         deploy_total > 0 AND current_stage IS NOT NULL AS started,
         deploy_completed, deploy_failed, deploy_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'deploy', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET deploy_failed = sites.deploy_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'deploy',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('deploy')
      AND sites.deploy_completed + sites.deploy_failed + 1 >= sites.deploy_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.deploy_completed, sites.deploy_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'deploy', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('deploy')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.deploy_completed, site.deploy_completed),
       coalesce(counted.deploy_failed, site.deploy_failed),
       site.deploy_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- increment: a job has completed
UPDATE sites
SET deploy_completed = sites.deploy_completed + 1,
    updated_at = clock_timestamp()
WHERE subdomain = %(site)s AND deploy_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET deploy_failed = sites.deploy_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'deploy',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp()
WHERE subdomain = %(site)s AND deploy_total > 0 AND current_stage IS NOT NULL;

-- read: the counters
SELECT deploy_completed, deploy_failed, deploy_total,
       deploy_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = %(site)s;

-- trigger: should the coordinator start?
SELECT current_stage IN ('deploy')
       AND deploy_completed + deploy_failed >= deploy_total
       AND deploy_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = %(site)s;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (%(site)s, 'deploy', clock_timestamp(), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('deploy')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize deploy
UPDATE sites
SET current_stage = 'deploy',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    deploy_total = %(deploy_total)s, deploy_completed = 0, deploy_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(deploy_total)s = 0
    )
WHERE subdomain = %(site)s
  AND NOT (
    coalesce(current_stage IN ('deploy'), false)
    AND (deploy_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued;

-- restart deploy
UPDATE sites
SET current_stage = 'deploy',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    deploy_total = %(deploy_total)s, deploy_completed = 0, deploy_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(deploy_total)s = 0
    )
WHERE subdomain = %(site)s
RETURNING coordinator_enqueued;

-- advance to deploy, starting deploy
UPDATE sites
SET current_stage = 'deploy',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    deploy_total = %(deploy_total)s, deploy_completed = 0, deploy_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('deploy'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(deploy_total)s = 0
    )
WHERE subdomain = %(site)s
  AND (
    current_stage IS NULL
    OR current_stage IN ('fetch', 'ocr', 'compilation', 'extraction')
    OR (
      current_stage IN ('deploy') AND current_stage <> 'deploy'
      AND deploy_total = 0
    )
  )
RETURNING coordinator_enqueued;

-- forget the jobs of what starts: deploy
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('deploy');
