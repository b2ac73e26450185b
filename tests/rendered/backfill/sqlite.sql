-- how many rows are stale, and how many expect documents
SELECT count(*) FILTER (WHERE p.current_stage = 'ocr'
  AND (julianday(p.updated_at) IS NULL OR julianday(p.updated_at) < julianday('now') - :age / 86400.0)), count(*) FILTER (WHERE p.stage_total > 0)
FROM site_progress p;

-- a page of stale rows
SELECT p.subdomain, p.stage_total, s.subdomain IS NOT NULL, s.current_stage
FROM site_progress p
LEFT JOIN sites s ON s.subdomain = p.subdomain AND (:after IS NULL OR s.subdomain > :after)
WHERE p.current_stage = 'ocr'
  AND (julianday(p.updated_at) IS NULL OR julianday(p.updated_at) < julianday('now') - :age / 86400.0)
  AND (:after IS NULL OR p.subdomain > :after)
ORDER BY p.subdomain
LIMIT :page;

-- a batch
UPDATE sites
SET current_stage = CASE WHEN v.total = 0 THEN 'completed' ELSE 'ocr' END,
    ocr_total = v.total,
    ocr_completed = v.completed,
    ocr_failed = v.total - v.completed,
    coordinator_enqueued = false,
    started_at = coalesce(strftime('%Y-%m-%d %H:%M:%f000', p.started_at), strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    updated_at = CASE WHEN v.total = 0 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') ELSE strftime('%Y-%m-%d %H:%M:%f000', 'now', -:past || ' seconds') END,
    last_error_stage = CASE WHEN v.total = 0 THEN 'ocr' ELSE sites.last_error_stage END,
    last_error_message = CASE WHEN v.total = 0 THEN 'no documents in the storage directory, and site_progress expected none' ELSE sites.last_error_message END,
    last_error_at = CASE WHEN v.total = 0 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') ELSE sites.last_error_at END
FROM (SELECT value ->> 0 AS subdomain, value ->> 1 AS completed, value ->> 2 AS total FROM json_each(:rows)) AS v
JOIN site_progress p ON p.subdomain = v.subdomain
WHERE sites.subdomain = v.subdomain
  AND sites.current_stage IS NULL
  AND p.current_stage = 'ocr'
  AND (julianday(p.updated_at) IS NULL OR julianday(p.updated_at) < julianday('now') - :age / 86400.0)
RETURNING sites.subdomain;
