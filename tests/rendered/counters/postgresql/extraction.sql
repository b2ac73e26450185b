-- finish: a job has completed
UPDATE sites
SET extraction_completed = sites.extraction_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND extraction_total > 0 END
RETURNING extraction_completed, extraction_failed, extraction_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET extraction_failed = sites.extraction_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'extraction',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = (
      sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
WHERE subdomain = %(site)s
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND extraction_total > 0 END
RETURNING extraction_completed, extraction_failed, extraction_total, coordinator_enqueued;

-- finish_locked: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         extraction_total > 0 AND current_stage IS NOT NULL AS started,
         extraction_completed, extraction_failed, extraction_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET extraction_completed = sites.extraction_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.extraction_completed, sites.extraction_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'extraction', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.extraction_completed, site.extraction_completed),
       coalesce(counted.extraction_failed, site.extraction_failed),
       site.extraction_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_locked: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         extraction_total > 0 AND current_stage IS NOT NULL AS started,
         extraction_completed, extraction_failed, extraction_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  SELECT subdomain FROM site WHERE started
), counted AS (
  UPDATE sites
  SET extraction_failed = sites.extraction_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'extraction',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.extraction_completed, sites.extraction_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'extraction', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.extraction_completed, site.extraction_completed),
       coalesce(counted.extraction_failed, site.extraction_failed),
       site.extraction_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has completed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         extraction_total > 0 AND current_stage IS NOT NULL AS started,
         extraction_completed, extraction_failed, extraction_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'extraction', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET extraction_completed = sites.extraction_completed + 1,
    updated_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.extraction_completed, sites.extraction_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'extraction', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.extraction_completed, site.extraction_completed),
       coalesce(counted.extraction_failed, site.extraction_failed),
       site.extraction_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- finish_keyed: a job has failed
WITH site AS (
  SELECT subdomain, coordinator_enqueued AS was,
         extraction_total > 0 AND current_stage IS NOT NULL AS started,
         extraction_completed, extraction_failed, extraction_total
  FROM sites
  WHERE subdomain = %(site)s
  FOR NO KEY UPDATE
), fresh AS (
  INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
  SELECT subdomain, 'extraction', %(key)s, clock_timestamp() FROM site WHERE started
  ON CONFLICT DO NOTHING
  RETURNING subdomain
), counted AS (
  UPDATE sites
  SET extraction_failed = sites.extraction_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'extraction',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp(),
    coordinator_enqueued = sites.coordinator_enqueued OR (
      sites.current_stage IN ('compilation', 'extraction')
      AND sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
  FROM site, fresh
  WHERE sites.subdomain = site.subdomain AND fresh.subdomain = site.subdomain
  RETURNING sites.subdomain, sites.extraction_completed, sites.extraction_failed,
            sites.coordinator_enqueued AND NOT site.was AS claimed
), claim AS (
  INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
  SELECT subdomain, 'extraction', clock_timestamp(), 1 FROM counted WHERE claimed
  ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage
)
SELECT coalesce(counted.extraction_completed, site.extraction_completed),
       coalesce(counted.extraction_failed, site.extraction_failed),
       site.extraction_total,
       coalesce(counted.claimed, false),
       site.started
FROM site LEFT JOIN counted ON true;

-- increment: a job has completed
UPDATE sites
SET extraction_completed = sites.extraction_completed + 1,
    updated_at = clock_timestamp()
WHERE subdomain = %(site)s AND extraction_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET extraction_failed = sites.extraction_failed + 1,
    updated_at = clock_timestamp(),
    last_error_stage = 'extraction',
    last_error_message = %(error)s,
    last_error_at = clock_timestamp()
WHERE subdomain = %(site)s AND extraction_total > 0 AND current_stage IS NOT NULL;

-- read: the counters
SELECT extraction_completed, extraction_failed, extraction_total,
       extraction_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = %(site)s;

-- trigger: should the coordinator start?
SELECT current_stage IN ('compilation', 'extraction')
       AND extraction_completed + extraction_failed >= extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
       AND compilation_total + extraction_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = %(site)s;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (%(site)s, 'extraction', clock_timestamp(), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = clock_timestamp(),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    extraction_total = %(extraction_total)s, extraction_completed = 0, extraction_failed = 0,
    compilation_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_total ELSE 0 END,
    compilation_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_completed ELSE 0 END,
    compilation_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(extraction_total)s = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
  AND NOT (
    coalesce(current_stage IN ('compilation', 'extraction'), false)
    AND (extraction_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued, compilation_total;

-- restart extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    extraction_total = %(extraction_total)s, extraction_completed = 0, extraction_failed = 0,
    compilation_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_total ELSE 0 END,
    compilation_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_completed ELSE 0 END,
    compilation_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(extraction_total)s = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
RETURNING coordinator_enqueued, compilation_total;

-- advance to extraction, starting extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = clock_timestamp(),
    updated_at = clock_timestamp(),
    extraction_total = %(extraction_total)s, extraction_completed = 0, extraction_failed = 0,
    compilation_total = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_total ELSE 0 END,
    compilation_completed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_completed ELSE 0 END,
    compilation_failed = CASE WHEN coalesce(current_stage IN ('compilation', 'extraction'), false)
      THEN compilation_failed ELSE 0 END,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('extraction'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      %(extraction_total)s = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = %(site)s
  AND (
    current_stage IS NULL
    OR current_stage IN ('fetch', 'ocr')
    OR (
      current_stage IN ('compilation', 'extraction') AND current_stage <> 'extraction'
      AND extraction_total = 0
    )
  )
RETURNING coordinator_enqueued, compilation_total;

-- forget the jobs of what starts: extraction
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('extraction');

-- forget the jobs of an idle peer as well
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('compilation', 'extraction');

-- advance to extraction, starting compilation and extraction
UPDATE sites
SET current_stage = 'extraction',
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
      current_stage IN ('compilation', 'extraction') AND current_stage <> 'extraction'
      AND compilation_total = 0 AND extraction_total = 0
    )
  )
RETURNING coordinator_enqueued;

-- forget the jobs of what starts: compilation and extraction
DELETE FROM pipeline_job WHERE subdomain = %(site)s AND stage IN ('compilation', 'extraction');
