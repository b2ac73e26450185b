-- how many rows are stale, and how many expect documents
SELECT count(*) FILTER (WHERE p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - %(age)s * interval '1 second')), count(*) FILTER (WHERE p.stage_total > 0)
FROM site_progress p;

-- a page of stale rows
SELECT p.subdomain, p.stage_total, s.subdomain IS NOT NULL, s.current_stage
FROM site_progress p
LEFT JOIN sites s ON s.subdomain = p.subdomain AND (%(after)s::text IS NULL OR s.subdomain > %(after)s)
WHERE p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - %(age)s * interval '1 second')
  AND (%(after)s::text IS NULL OR p.subdomain > %(after)s)
ORDER BY p.subdomain
LIMIT %(page)s;

-- before a batch
SELECT set_config('enable_nestloop', 'off', true),
       set_config('synchronous_commit', %(synchronous)s, true);

-- a batch
UPDATE sites
SET current_stage = CASE WHEN v.total = 0 THEN 'completed' ELSE 'ocr' END,
    ocr_total = v.total,
    ocr_completed = v.completed,
    ocr_failed = v.total - v.completed,
    coordinator_enqueued = false,
    started_at = coalesce(p.started_at, now()),
    updated_at = CASE WHEN v.total = 0 THEN now() ELSE now() - %(past)s * interval '1 second' END,
    last_error_stage = CASE WHEN v.total = 0 THEN 'ocr' ELSE sites.last_error_stage END,
    last_error_message = CASE WHEN v.total = 0 THEN 'no documents in the storage directory, and site_progress expected none' ELSE sites.last_error_message END,
    last_error_at = CASE WHEN v.total = 0 THEN now() ELSE sites.last_error_at END
FROM unnest(%(sites)s::text[], %(completed)s::int[], %(totals)s::int[]) AS v(subdomain, completed, total)
JOIN site_progress p ON p.subdomain = v.subdomain
WHERE sites.subdomain = v.subdomain
  AND sites.current_stage IS NULL
  AND p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - %(age)s * interval '1 second')
  AND sites.subdomain BETWEEN %(first)s AND %(last)s
  AND p.subdomain BETWEEN %(first)s AND %(last)s
RETURNING sites.subdomain;
