-- claim: the coordinator of the step that the site is in
UPDATE sites
SET coordinator_enqueued = true, updated_at = clock_timestamp()
WHERE subdomain = %(site)s
  AND NOT coordinator_enqueued
  AND (
    current_stage IN ('fetch')
        AND sites.fetch_completed + sites.fetch_failed >= sites.fetch_total
    OR current_stage IN ('ocr')
        AND sites.ocr_completed + sites.ocr_failed >= sites.ocr_total
    OR current_stage IN ('compilation', 'extraction')
        AND sites.compilation_completed + sites.compilation_failed >= sites.compilation_total
        AND sites.extraction_completed + sites.extraction_failed >= sites.extraction_total
    OR current_stage IN ('deploy')
        AND sites.deploy_completed + sites.deploy_failed >= sites.deploy_total
  )
RETURNING current_stage;

-- forget_claim
DELETE FROM pipeline_claim WHERE subdomain = %(site)s;

-- current_stage
SELECT current_stage FROM sites WHERE subdomain = %(site)s;

-- complete
UPDATE sites
SET current_stage = 'completed', coordinator_enqueued = false, updated_at = clock_timestamp()
WHERE subdomain = %(site)s AND coalesce(current_stage, '') <> 'completed'
RETURNING subdomain;
