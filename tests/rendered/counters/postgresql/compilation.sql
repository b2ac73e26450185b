-- finish: a job has completed
UPDATE sites
SET compilation_completed = sites.compilation_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND compilation_total > 0 END
RETURNING compilation_completed, compilation_failed, compilation_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET compilation_failed = sites.compilation_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'compilation',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND compilation_total > 0 END
RETURNING compilation_completed, compilation_failed, compilation_total, coordinator_enqueued;

-- finish_locked: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         compilation_total > 0 AND current_stage IS NOT NULL AS started,
         compilation_completed, compilation_failed, compilation_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET compilation_completed = sites.compilation_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.compilation_completed, sites.compilation_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'compilation', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.compilation_completed, site.compilation_completed),
       coalesce(counted.compilation_failed, site.compilation_failed),
       site.compilation_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_locked: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         compilation_total > 0 AND current_stage IS NOT NULL AS started,
         compilation_completed, compilation_failed, compilation_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET compilation_failed = sites.compilation_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'compilation',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.compilation_completed, sites.compilation_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'compilation', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.compilation_completed, site.compilation_completed),
       coalesce(counted.compilation_failed, site.compilation_failed),
       site.compilation_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         compilation_total > 0 AND current_stage IS NOT NULL AS started,
         compilation_completed, compilation_failed, compilation_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'compilation', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET compilation_completed = sites.compilation_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.compilation_completed, sites.compilation_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'compilation', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.compilation_completed, site.compilation_completed),
       coalesce(counted.compilation_failed, site.compilation_failed),
       site.compilation_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         compilation_total > 0 AND current_stage IS NOT NULL AS started,
         compilation_completed, compilation_failed, compilation_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'compilation', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET compilation_failed = sites.compilation_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'compilation',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.compilation_completed + sites.compilation_failed + 1 >= sites.compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.compilation_completed, sites.compilation_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'compilation', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.compilation_completed, site.compilation_completed),
       coalesce(counted.compilation_failed, site.compilation_failed),
       site.compilation_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- increment: a job has completed
UPDATE sites
SET compilation_completed = sites.compilation_completed + 1,
    updated_at = clock_timestamp()
WHERE subdomain = %(site)s AND compilation_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET compilation_failed = sites.compilation_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'compilation',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp()
WHERE subdomain = %(site)s AND compilation_total > 0 AND current_stage IS NOT NULL;

-- read: the counters
SELECT compilation_completed, compilation_failed, compilation_total,
       compilation_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = %(site)s;

-- trigger: should the coordinator start?
SELECT current_stage IN ('compilation', 'extraction')
       AND compilation_completed + compilation_failed >= compilation_total
      AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
       AND compilation_total + extraction_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = %(site)s;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (%(site)s, 'compilation', clock_timestamp(), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize compilation
UPDATE sites
SET current_stage = 'compilation',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    compilation_total = %(compilation_total)s, compilation_completed = 0, compilation_failed = 0,
    extraction_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_total ELSE 0 END,
    extraction_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_completed ELSE 0 END,
    extraction_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(compilation_total)s = 0
      AND (sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
  AND NOT (
    coalesce(current_stage IN ('compilation', 'extraction'), false)
    AND (compilation_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued, extraction_total;

-- restart compilation
UPDATE sites
SET current_stage = 'compilation',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    compilation_total = %(compilation_total)s, compilation_completed = 0, compilation_failed = 0,
    extraction_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_total ELSE 0 END,
    extraction_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_completed ELSE 0 END,
    extraction_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(compilation_total)s = 0
      AND (sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
RETURNING coordinator_enqueued, extraction_total;

-- advance to compilation, starting compilation
UPDATE sites
SET current_stage = 'compilation',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    compilation_total = %(compilation_total)s, compilation_completed = 0, compilation_failed = 0,
    extraction_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_total ELSE 0 END,
    extraction_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_completed ELSE 0 END,
    extraction_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN extraction_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('compilation'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(compilation_total)s = 0
      AND (sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
  AND (
    current_stage IS NULL
    OR current_stage IN ('fetch', 'ocr')
    OR (
      current_stage IN ('compilation', 'extraction') AND current_stage <> 'compilation'
      AND compilation_total = 0
    )
  )
RETURNING coordinator_enqueued, extraction_total;

-- forget the jobs of what starts: compilation
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('compilation');

-- forget the jobs of an idle peer as well
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('compilation', 'extraction');

-- advance to compilation, starting compilation and extraction
UPDATE sites
SET current_stage = 'compilation',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    compilation_total = %(compilation_total)s, compilation_completed = 0, compilation_failed = 0,
    extraction_total = %(extraction_total)s, extraction_completed = 0, extraction_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(compilation_total)s + %(extraction_total)s = 0
    )
WHERE subdomain = %(site)s
  AND (
    current_stage IS NULL
    OR current_stage IN ('fetch', 'ocr')
    OR (
      current_stage IN ('compilation', 'extraction') AND current_stage <> 'compilation'
      AND compilation_total = 0 AND extraction_total = 0
    )
  )
RETURNING coordinator_enqueued;

-- forget the jobs of what starts: compilation and extraction
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('compilation', 'extraction');
