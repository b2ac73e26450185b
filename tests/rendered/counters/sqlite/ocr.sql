-- finish: a job has completed
UPDATE sites
SET ocr_completed = sites.ocr_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    coordinator_enqueued = (
      sites.ocr_completed + sites.ocr_failed + 1 >= sites.ocr_total
    )
WHERE subdomain = :site
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('ocr') AND ocr_total > 0 END
RETURNING ocr_completed, ocr_failed, ocr_total, coordinator_enqueued;

-- finish: a job has failed
UPDATE sites
SET ocr_failed = sites.ocr_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'ocr',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    coordinator_enqueued = (
      sites.ocr_completed + sites.ocr_failed + 1 >= sites.ocr_total
    )
WHERE subdomain = :site
  AND CASE WHEN coordinator_enqueued THEN false ELSE current_stage IN ('ocr') AND ocr_total > 0 END
RETURNING ocr_completed, ocr_failed, ocr_total, coordinator_enqueued;

-- finish_late: a job has completed
UPDATE sites
SET ocr_completed = sites.ocr_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site
  AND (coordinator_enqueued OR NOT current_stage IN ('ocr'))
  AND ocr_total > 0
  AND current_stage IS NOT NULL
RETURNING ocr_completed, ocr_failed, ocr_total;

-- finish_late: a job has failed
UPDATE sites
SET ocr_failed = sites.ocr_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'ocr',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site
  AND (coordinator_enqueued OR NOT current_stage IN ('ocr'))
  AND ocr_total > 0
  AND current_stage IS NOT NULL
RETURNING ocr_completed, ocr_failed, ocr_total;

-- increment: a job has completed
UPDATE sites
SET ocr_completed = sites.ocr_completed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site AND ocr_total > 0 AND current_stage IS NOT NULL;

-- increment: a job has failed
UPDATE sites
SET ocr_failed = sites.ocr_failed + 1,
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    last_error_stage = 'ocr',
    last_error_message = :error,
    last_error_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE subdomain = :site AND ocr_total > 0 AND current_stage IS NOT NULL;

-- remember: a job's key
INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)
SELECT subdomain, 'ocr', :key, strftime('%Y-%m-%d %H:%M:%f000', 'now')
FROM sites
WHERE subdomain = :site AND ocr_total > 0 AND current_stage IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING subdomain;

-- read: the counters
SELECT ocr_completed, ocr_failed, ocr_total,
       ocr_total > 0 AND current_stage IS NOT NULL AS started
FROM sites
WHERE subdomain = :site;

-- trigger: should the coordinator start?
SELECT current_stage IN ('ocr')
       AND ocr_completed + ocr_failed >= ocr_total
       AND ocr_total > 0
       AND NOT coordinator_enqueued
FROM sites
WHERE subdomain = :site;

-- record_claim
INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)
VALUES (:site, 'ocr', strftime('%Y-%m-%d %H:%M:%f000', 'now'), 1)
ON CONFLICT (subdomain) DO UPDATE
  SET claimed_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
      attempts = CASE WHEN pipeline_claim.stage IN ('ocr')
        THEN pipeline_claim.attempts + 1 ELSE 1 END,
      stage = excluded.stage;

-- initialize ocr
UPDATE sites
SET current_stage = 'ocr',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    ocr_total = :ocr_total, ocr_completed = 0, ocr_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      :ocr_total = 0
    )
WHERE subdomain = :site
  AND NOT (
    coalesce(current_stage IN ('ocr'), false)
    AND (ocr_total > 0 OR coordinator_enqueued)
  )
RETURNING coordinator_enqueued;

-- restart ocr
UPDATE sites
SET current_stage = 'ocr',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    ocr_total = :ocr_total, ocr_completed = 0, ocr_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      :ocr_total = 0
    )
WHERE subdomain = :site
RETURNING coordinator_enqueued;

-- advance to ocr, starting ocr
UPDATE sites
SET current_stage = 'ocr',
    started_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    updated_at = strftime('%Y-%m-%d %H:%M:%f000', 'now'),
    ocr_total = :ocr_total, ocr_completed = 0, ocr_failed = 0,
    last_error_stage = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_stage END,
    last_error_message = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_message END,
    last_error_at = CASE WHEN coalesce(last_error_stage IN ('ocr'), true)
      THEN NULL ELSE last_error_at END,
    coordinator_enqueued = (
      :ocr_total = 0
    )
WHERE subdomain = :site
  AND (
    current_stage IS NULL
    OR current_stage IN ('fetch')
    OR (
      current_stage IN ('ocr') AND current_stage <> 'ocr'
      AND ocr_total = 0
    )
  )
RETURNING coordinator_enqueued;

-- forget the jobs of what starts: ocr
DELETE FROM pipeline_job WHERE subdomain = :site AND stage IN ('ocr');
