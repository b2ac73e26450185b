-- finish: a job has completed
UPDATE sites
SET extraction_completed = sites.extraction_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    coordinator_enqueued = (
      sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
WHERE subdomain = :site
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND extraction_total > 0 END
RETURNING extraction_completed, extraction_failed, extraction_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET extraction_failed = sites.extraction_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'extraction',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    coordinator_enqueued = (
      sites.extraction_completed + sites.extraction_failed + 1 >= sites.extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
    )
WHERE subdomain = :site
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('compilation', 'extraction') AND extraction_total > 0 END
RETURNING extraction_completed, extraction_failed, extraction_total, coordinator_enqueued;

-- finish_late: a job has completed
UPDATE sites
SET extraction_completed = sites.extraction_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site
  AND (coordinator_enqueued OR NOT current_stage IN ('compilation', 'extraction'))
  AND extraction_total > 0
  AND current_stage IS NOT NULL
RETURNING extraction_completed, extraction_failed, extraction_total;

-- finish_late: a job has failed
UPDATE sites
SET extraction_failed = sites.extraction_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'extraction',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site
  AND (coordinator_enqueued OR NOT current_stage IN ('compilation', 'extraction'))
  AND extraction_total > 0
  AND current_stage IS NOT NULL
RETURNING extraction_completed, extraction_failed, extraction_total;

-- increment: a job has completed
UPDATE sites
SET extraction_completed = sites.extraction_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site AND extraction_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET extraction_failed = sites.extraction_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'extraction',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site AND extraction_total > 0 AND current_stage IS NOT NULL;

-- remember: a job's key
INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
SELECT subdomain, 'extraction', :key, strftime('%Y-%m-%d %H:%M:%f000', 'now')
FROM sites
WHERE subdomain = :site AND extraction_total > 0 AND current_stage IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING subdomain;

-- read: the counters
SELECT extraction_completed, extraction_failed, extraction_total,
       extraction_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = :site;

-- trigger: should the coordinator start?
SELECT current_stage IN ('compilation', 'extraction')
       AND extraction_completed + extraction_failed >= extraction_total
      AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
       AND compilation_total + extraction_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = :site;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (:site, 'extraction', strftime('%Y-%m-%d %H:%M:%f000', 'now'), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
      attempts = CASE WHEN pipeline_claim.stage IN ('compilation', 'extraction')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    extraction_total = :extraction_total, extraction_completed = 0, extraction_failed = 0,
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
      :extraction_total = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = :site
  AND NOT (
    coalesce(current_stage IN ('compilation', 'extraction'), false)
    AND (extraction_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued, compilation_total;

-- restart extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    extraction_total = :extraction_total, extraction_completed = 0, extraction_failed = 0,
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
      :extraction_total = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = :site
RETURNING coordinator_enqueued, compilation_total;

-- advance to extraction, starting extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    extraction_total = :extraction_total, extraction_completed = 0, extraction_failed = 0,
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
      :extraction_total = 0
      AND (sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        OR NOT coalesce(current_stage IN ('compilation', 'extraction'), false))
    )
WHERE subdomain = :site
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
DELETE FROM pipeline_job WHERE subdomain = :site AND stage IN ('extraction');

-- forget the jobs of an idle peer as well
DELETE FROM pipeline_job WHERE subdomain = :site AND stage IN ('compilation', 'extraction');

-- advance to extraction, starting compilation and extraction
UPDATE sites
SET current_stage = 'extraction',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    compilation_total = :compilation_total, compilation_completed = 0, compilation_failed = 0,
    extraction_total = :extraction_total, extraction_completed = 0, extraction_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('compilation', 'extraction'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      :compilation_total + :extraction_total = 0
    )
WHERE subdomain = :site
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
DELETE FROM pipeline_job WHERE subdomain = :site AND stage IN ('compilation', 'extraction');
