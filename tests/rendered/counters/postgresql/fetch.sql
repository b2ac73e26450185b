-- finish: a job has completed
UPDATE sites
SET fetch_completed = sites.fetch_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('fetch') AND fetch_total > 0 END
RETURNING fetch_completed, fetch_failed, fetch_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET fetch_failed = sites.fetch_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'fetch',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('fetch') AND fetch_total > 0 END
RETURNING fetch_completed, fetch_failed, fetch_total, coordinator_enqueued;

-- finish_locked: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         fetch_total > 0 AND current_stage IS NOT NULL AS started,
         fetch_completed, fetch_failed, fetch_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET fetch_completed = sites.fetch_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('fetch')
      AND sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.fetch_completed, sites.fetch_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'fetch', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('fetch')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.fetch_completed, site.fetch_completed),
       coalesce(counted.fetch_failed, site.fetch_failed),
       site.fetch_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_locked: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         fetch_total > 0 AND current_stage IS NOT NULL AS started,
         fetch_completed, fetch_failed, fetch_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET fetch_failed = sites.fetch_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'fetch',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('fetch')
      AND sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.fetch_completed, sites.fetch_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'fetch', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('fetch')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.fetch_completed, site.fetch_completed),
       coalesce(counted.fetch_failed, site.fetch_failed),
       site.fetch_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         fetch_total > 0 AND current_stage IS NOT NULL AS started,
         fetch_completed, fetch_failed, fetch_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'fetch', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET fetch_completed = sites.fetch_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('fetch')
      AND sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.fetch_completed, sites.fetch_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'fetch', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('fetch')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.fetch_completed, site.fetch_completed),
       coalesce(counted.fetch_failed, site.fetch_failed),
       site.fetch_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         fetch_total > 0 AND current_stage IS NOT NULL AS started,
         fetch_completed, fetch_failed, fetch_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'fetch', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET fetch_failed = sites.fetch_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'fetch',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('fetch')
      AND sites.fetch_completed + sites.fetch_failed + 1 >= sites.fetch_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.fetch_completed, sites.fetch_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'fetch', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('fetch')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.fetch_completed, site.fetch_completed),
       coalesce(counted.fetch_failed, site.fetch_failed),
       site.fetch_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- increment: a job has completed
UPDATE sites
SET fetch_completed = sites.fetch_completed + 1,
    updated_at = clock_timestamp()
WHERE subdomain = %(site)s AND fetch_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET fetch_failed = sites.fetch_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'fetch',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp()
WHERE subdomain = %(site)s AND fetch_total > 0 AND current_stage IS NOT NULL;

-- read: the counters
SELECT fetch_completed, fetch_failed, fetch_total,
       fetch_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = %(site)s;

-- trigger: should the coordinator start?
SELECT current_stage IN ('fetch')
       AND fetch_completed + fetch_failed >= fetch_total
       AND fetch_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = %(site)s;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (%(site)s, 'fetch', clock_timestamp(), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('fetch')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize fetch
UPDATE sites
SET current_stage = 'fetch',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    fetch_total = %(fetch_total)s, fetch_completed = 0, fetch_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(fetch_total)s = 0
    )
WHERE subdomain = %(site)s
  AND NOT (
    coalesce(current_stage IN ('fetch'), false)
    AND (fetch_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued;

-- restart fetch
UPDATE sites
SET current_stage = 'fetch',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    fetch_total = %(fetch_total)s, fetch_completed = 0, fetch_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(fetch_total)s = 0
    )
WHERE subdomain = %(site)s
RETURNING coordinator_enqueued;

-- advance to fetch, starting fetch
UPDATE sites
SET current_stage = 'fetch',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    fetch_total = %(fetch_total)s, fetch_completed = 0, fetch_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('fetch'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(fetch_total)s = 0
    )
WHERE subdomain = %(site)s
  AND (
    current_stage IS NULL
    OR (
      current_stage IN ('fetch') AND current_stage <> 'fetch'
      AND fetch_total = 0
    )
  )
RETURNING coordinator_enqueued;

-- forget the jobs of what starts: fetch
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('fetch');
