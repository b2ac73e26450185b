-- What the source documents have people type to see whether all is well: 000 and 001 (sites), 002 (before the
-- cleanup), 004 (pipeline state). Each question once, in plain SQL, as a person would put it to PostgreSQL.

-- 000, 001: sites by stage
SELECT current_stage, count(*) FROM sites WHERE current_stage IS NOT NULL GROUP BY current_stage ORDER BY 2 DESC;
-- 000, 001: how many are stuck
SELECT count(*) FROM sites
WHERE current_stage <> 'completed' AND current_stage IS NOT NULL AND updated_at < now() - interval '2 hours';
-- 000, 001: failure rates
SELECT round(100.0 * sum(ocr_failed) / nullif(sum(ocr_total), 0), 1),
       round(100.0 * sum(compilation_failed) / nullif(sum(compilation_total), 0), 1)
FROM sites WHERE ocr_total > 0;
-- 000: which are stuck longest
SELECT subdomain, current_stage, updated_at, ocr_total, ocr_completed, ocr_failed
FROM sites WHERE current_stage <> 'completed' AND updated_at < now() - interval '2 hours'
ORDER BY updated_at LIMIT 10;
-- 000: which fail most
SELECT subdomain, current_stage, ocr_total, ocr_failed, round(100.0 * ocr_failed / nullif(ocr_total, 0), 1)
FROM sites WHERE ocr_total > 0 AND ocr_failed > 0 ORDER BY 5 DESC LIMIT 10;
-- 000: why they fail
SELECT last_error_stage, last_error_message, count(*) FROM sites
WHERE last_error_stage = 'ocr' GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 5;
-- 000: is the backfill there
SELECT count(*) FROM sites WHERE current_stage = 'ocr' AND ocr_total > 0;
-- 001: do the sites use the new columns
SELECT count(*) FROM sites WHERE current_stage IS NOT NULL;
-- 001: does anybody write the old table
SELECT count(*) FROM site_progress WHERE updated_at > now() - interval '24 hours';
-- 001: how long they stay in a stage
SELECT current_stage, count(*), avg(extract(epoch FROM now() - updated_at) / 3600)
FROM sites WHERE current_stage <> 'completed' GROUP BY current_stage;
-- 002: the share of stuck sites
SELECT count(*) FILTER (WHERE updated_at < now() - interval '2 hours'), count(*),
       round(100.0 * count(*) FILTER (WHERE updated_at < now() - interval '2 hours') / nullif(count(*), 0), 1)
FROM sites WHERE current_stage <> 'completed' AND current_stage IS NOT NULL;
-- 002: the health score
SELECT round(100.0 * count(*) FILTER (WHERE current_stage = 'completed' OR updated_at >= now() - interval '2 hours')
             / nullif(count(*), 0), 1)
FROM sites WHERE current_stage IS NOT NULL;
-- 004: the table, its columns, its indexes
SELECT to_regclass('content_item_pipeline_state');
SELECT column_name FROM information_schema.columns WHERE table_name = 'content_item_pipeline_state';
SELECT indexname FROM pg_indexes WHERE tablename = 'content_item_pipeline_state';
-- 004: two rows for one item and pipeline
SELECT count(*) FROM (SELECT content_item_id, pipeline FROM content_item_pipeline_state
                      GROUP BY content_item_id, pipeline HAVING count(*) > 1) AS duplicates;
-- 004: a status that nobody knows
SELECT count(*) FROM content_item_pipeline_state
WHERE status NOT IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal');
