-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on
SET TimeZone = 'UTC';
SET standard_conforming_strings = 'on';
SET statement_timeout = '0';
SET idle_in_transaction_session_timeout = '0';
SET lock_timeout = '60s';
SET default_transaction_read_only = 'off';
SET row_security = 'off';
SET max_parallel_workers_per_gather = '0';
SET max_parallel_maintenance_workers = '0';

DO $pipestate$
BEGIN
  FOR attempt IN 1..600 LOOP
    IF pg_try_advisory_lock(1885958245, 1937006964) THEN RETURN; END IF;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running upgrade 0005 -> 0006

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0005' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0005, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- the gate sites-consolidation/readiness, revision 0006, pass 1
\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

SET LOCAL standard_conforming_strings = on;

-- where the database stands, and whether there is anything to lose
DO $pipestate$
DECLARE
  filled boolean := false;
  before boolean;
  t text;
BEGIN
  IF NOT (ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0005']::text[])
      OR ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0006']::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision 0006 starts at 0005, but the database is at %s: nothing of it was done', coalesce(nullif(array_to_string(ARRAY(SELECT version_num::text FROM pipestate_alembic_version), ' '), ''), 'base'));
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate of revision 0006 needs READ COMMITTED, and this transaction is %s: its second look would not see what was written before the lock. Give the engine isolation_level=''READ COMMITTED'', or change default_transaction_isolation of the role or the database', upper(current_setting('transaction_isolation')));
  END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    FOREACH t IN ARRAY ARRAY['site_progress'] LOOP
      IF to_regclass(t) IS NOT NULL AND NOT filled THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
      END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  PERFORM set_config('pipestate.look', jsonb_build_object('of', '0006/1', 'filled', filled,
    'before', filled, 'results', '[]'::jsonb)::text, true);
  PERFORM set_config('pipestate.statement_timeout', current_setting('statement_timeout'), true);
  PERFORM set_config('statement_timeout', '30s', true);
END $pipestate$;

-- backup-taken: people >= 1
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken' AND age_seconds < 86400
) SELECT count(*), coalesce(bool_and((q."people" >= 1 AND q."people"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'backup-taken', 'outcome', outcome, 'level', 'block',
    'required', 'people >= 1', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- stuck-sites: stuck_pct < 1.0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE stuck) / nullif(count(*), 0), 1), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL AND current_stage <> 'completed') AS in_flight
) SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'stuck-sites', 'outcome', outcome, 'level', 'block',
    'required', 'stuck_pct < 1.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- reconciliation-runs: runs = 10 and most_found < 5
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS runs, max(latest.stuck) AS most_found
FROM (SELECT r.found AS stuck
      FROM pipeline_reconciliation r
      WHERE r.triggered_by = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.id DESC
      LIMIT 10) AS latest
) SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'reconciliation-runs', 'outcome', outcome, 'level', 'block',
    'required', 'runs = 10 and most_found < 5', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- health-score: health_score >= 95.0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE NOT stuck) / nullif(count(*), 0), 1), 100.0) AS health_score
FROM (SELECT current_stage <> 'completed'
             AND (updated_at IS NULL OR updated_at < now() - interval '2 hours') AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL) AS known
) SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'health-score', 'outcome', outcome, 'level', 'block',
    'required', 'health_score >= 95.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- manual-interventions: interventions = 0 and days_on_record >= 7
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE triggered_by = 'manual' AND started_at > now() - interval '7 days') AS interventions,
       round(CAST(extract(epoch FROM now() - min(started_at)) / 86400 AS numeric), 2) AS days_on_record
FROM pipeline_reconciliation
) SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'manual-interventions', 'outcome', outcome, 'level', 'block',
    'required', 'interventions = 0 and days_on_record >= 7', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-site-progress-writes: recent = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS recent, max(updated_at) AS latest
FROM site_progress
WHERE updated_at > now() - interval '24 hours' OR started_at > now() - interval '24 hours'
) SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-site-progress-writes', 'outcome', outcome, 'level', 'block',
    'required', 'recent = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-legacy-column-writes: recent = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
-- The outer row stands in for a column that this application never had.
SELECT (SELECT count(*) FROM sites
        WHERE (last_updated LIKE '2___-__-__%' AND replace(last_updated, ' ', 'T') COLLATE "C" > since)
           OR (last_deployed LIKE '2___-__-__%' AND replace(last_deployed, ' ', 'T') COLLATE "C" > since)
           OR (last_extracted LIKE '2___-__-__%' AND replace(last_extracted, ' ', 'T') COLLATE "C" > since)) AS recent,
       since
FROM (SELECT CAST(NULL AS text) AS last_updated, CAST(NULL AS text) AS last_deployed,
             CAST(NULL AS text) AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS') AS since) AS otherwise
) SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-legacy-column-writes', 'outcome', outcome, 'level', 'block',
    'required', 'recent = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- no-dependents: dependents = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH going AS (
  SELECT to_regclass('site_progress')::oid AS relation, 0 AS number
  UNION ALL
  SELECT attrelid, attnum FROM pg_attribute
  WHERE attrelid = to_regclass('sites') AND NOT attisdropped
    AND attname IN ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), others AS (
  SELECT pg_describe_object(d.classid, d.objid, 0) AS dependent
  FROM going g
  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = g.relation
    AND (g.number = 0 OR d.refobjsubid = g.number)
  LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
  LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
  WHERE r.ev_class <> g.relation
    OR d.classid IN ('pg_proc'::regclass, 'pg_publication_rel'::regclass)
    OR (g.number > 0 AND (d.classid = 'pg_policy'::regclass
                          OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
  UNION
  SELECT pg_describe_object('pg_constraint'::regclass, c.oid, 0)
  FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
  WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
  UNION
  SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND p.prosrc ~* '\msite_progress\M'
    AND to_regclass('site_progress') IS NOT NULL
)
SELECT count(*) AS dependents, min(dependent) AS for_example
FROM others
) SELECT count(*), coalesce(bool_and((q."dependents" = 0 AND q."dependents"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'no-dependents', 'outcome', outcome, 'level', 'block',
    'required', 'dependents = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- soak: days_held >= 7 and days_since_last_record <= 2
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT round(CAST(extract(epoch FROM now() - min(recorded_at)) / 86400 AS numeric), 2) AS days_held,
       round(CAST(extract(epoch FROM now() - max(recorded_at)) / 86400 AS numeric), 2) AS days_since_last_record,
       count(*) AS records
FROM pipestate.run
WHERE event = 'verify' AND runbook = 'sites-consolidation' AND phase = 'backfill' AND gate = 'open'
  AND id > (SELECT coalesce(max(c.id), 0) FROM pipestate.run c
            WHERE c.event = 'verify' AND c.runbook = 'sites-consolidation' AND c.phase = 'backfill'
              AND c.gate = 'closed')
) SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."days_since_last_record" <= 2 AND q."days_since_last_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'soak', 'outcome', outcome, 'level', 'block',
    'required', 'days_held >= 7 and days_since_last_record <= 2', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- the gate sites-consolidation/readiness: open or closed
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> ARRAY['backup-taken', 'stuck-sites', 'reconciliation-runs', 'health-score', 'manual-interventions', 'recent-site-progress-writes', 'recent-legacy-column-writes', 'no-dependents', 'soak']::text[] THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', r ->> 'message'), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
    END IF;
    IF found IS NOT NULL OR true THEN
  IF pg_catalog.to_regclass('pipestate.run') IS NOT NULL THEN
    DECLARE
      stranger record;
    BEGIN
    SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = (SELECT me.oid FROM pg_catalog.pg_roles me WHERE me.rolname = current_user)
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR (NOT (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user) AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    WITH recorded AS (
      INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped, reason)
      VALUES (CASE WHEN found IS NOT NULL THEN 'force' ELSE 'gate' END, current_user, 'sites-consolidation', 'readiness', CASE WHEN found IS NOT NULL THEN 'closed' ELSE 'open' END, '72ca5a865f8b00cc78d632fc185c94f8010a09d02be376a077bfbe33211dbe99', '0006', (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'passed'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'failed' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome IN ('failed', 'errored') AND judged.level = 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'errored' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'skipped'), CASE WHEN found IS NOT NULL THEN '' END) RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
    SELECT recorded.id, judged.check_id, judged.outcome, judged.level, judged.required, judged.observed, judged.message, judged.duration_ms
    FROM recorded, pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (check_id text, outcome text, level text, required text, observed jsonb, message text, duration_ms double precision);
    END;
  END IF;
    END IF;
  END IF;
  PERFORM set_config('pipestate.look', (look || jsonb_build_object('of', '0006/1 passed'))::text, true);
END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '200ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '50ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN ACCESS EXCLUSIVE MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- the gate sites-consolidation/readiness, revision 0006, pass 2
\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

SET LOCAL standard_conforming_strings = on;

-- where the database stands, and whether there is anything to lose
DO $pipestate$
DECLARE
  filled boolean := false;
  before boolean;
  t text;
BEGIN
  IF NOT (ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0005']::text[])
      OR ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0006']::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision 0006 starts at 0005, but the database is at %s: nothing of it was done', coalesce(nullif(array_to_string(ARRAY(SELECT version_num::text FROM pipestate_alembic_version), ' '), ''), 'base'));
  END IF;
  IF nullif(current_setting('pipestate.look', true), '')::jsonb ->> 'of'
      IS DISTINCT FROM '0006/1 passed'
      OR EXISTS (SELECT FROM unnest(ARRAY['site_progress']) AS wanted
                 WHERE to_regclass(wanted) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock' AND relation = to_regclass(wanted))) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  before := (current_setting('pipestate.look')::jsonb ->> 'filled')::boolean;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate of revision 0006 needs READ COMMITTED, and this transaction is %s: its second look would not see what was written before the lock. Give the engine isolation_level=''READ COMMITTED'', or change default_transaction_isolation of the role or the database', upper(current_setting('transaction_isolation')));
  END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    FOREACH t IN ARRAY ARRAY['site_progress'] LOOP
      IF to_regclass(t) IS NOT NULL AND NOT filled THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
      END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  PERFORM set_config('pipestate.look', jsonb_build_object('of', '0006/2', 'filled', filled,
    'before', before, 'results', '[]'::jsonb)::text, true);
  PERFORM set_config('pipestate.statement_timeout', current_setting('statement_timeout'), true);
  PERFORM set_config('statement_timeout', '30s', true);
END $pipestate$;

-- backup-taken: people >= 1
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken' AND age_seconds < 86400
) SELECT count(*), coalesce(bool_and((q."people" >= 1 AND q."people"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:859', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'backup-taken', 'outcome', outcome, 'level', 'block',
    'required', 'people >= 1', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- stuck-sites: stuck_pct < 1.0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE stuck) / nullif(count(*), 0), 1), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL AND current_stage <> 'completed') AS in_flight
) SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'stuck-sites', 'outcome', outcome, 'level', 'block',
    'required', 'stuck_pct < 1.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- reconciliation-runs: runs = 10 and most_found < 5
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS runs, max(latest.stuck) AS most_found
FROM (SELECT r.found AS stuck
      FROM pipeline_reconciliation r
      WHERE r.triggered_by = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.id DESC
      LIMIT 10) AS latest
) SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'reconciliation-runs', 'outcome', outcome, 'level', 'block',
    'required', 'runs = 10 and most_found < 5', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- health-score: health_score >= 95.0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE NOT stuck) / nullif(count(*), 0), 1), 100.0) AS health_score
FROM (SELECT current_stage <> 'completed'
             AND (updated_at IS NULL OR updated_at < now() - interval '2 hours') AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL) AS known
) SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'health-score', 'outcome', outcome, 'level', 'block',
    'required', 'health_score >= 95.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- manual-interventions: interventions = 0 and days_on_record >= 7
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE triggered_by = 'manual' AND started_at > now() - interval '7 days') AS interventions,
       round(CAST(extract(epoch FROM now() - min(started_at)) / 86400 AS numeric), 2) AS days_on_record
FROM pipeline_reconciliation
) SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'manual-interventions', 'outcome', outcome, 'level', 'block',
    'required', 'interventions = 0 and days_on_record >= 7', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-site-progress-writes: recent = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS recent, max(updated_at) AS latest
FROM site_progress
WHERE updated_at > now() - interval '24 hours' OR started_at > now() - interval '24 hours'
) SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-site-progress-writes', 'outcome', outcome, 'level', 'block',
    'required', 'recent = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-legacy-column-writes: recent = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
-- The outer row stands in for a column that this application never had.
SELECT (SELECT count(*) FROM sites
        WHERE (last_updated LIKE '2___-__-__%' AND replace(last_updated, ' ', 'T') COLLATE "C" > since)
           OR (last_deployed LIKE '2___-__-__%' AND replace(last_deployed, ' ', 'T') COLLATE "C" > since)
           OR (last_extracted LIKE '2___-__-__%' AND replace(last_extracted, ' ', 'T') COLLATE "C" > since)) AS recent,
       since
FROM (SELECT CAST(NULL AS text) AS last_updated, CAST(NULL AS text) AS last_deployed,
             CAST(NULL AS text) AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS') AS since) AS otherwise
) SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-legacy-column-writes', 'outcome', outcome, 'level', 'block',
    'required', 'recent = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- no-dependents: dependents = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH going AS (
  SELECT to_regclass('site_progress')::oid AS relation, 0 AS number
  UNION ALL
  SELECT attrelid, attnum FROM pg_attribute
  WHERE attrelid = to_regclass('sites') AND NOT attisdropped
    AND attname IN ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), others AS (
  SELECT pg_describe_object(d.classid, d.objid, 0) AS dependent
  FROM going g
  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = g.relation
    AND (g.number = 0 OR d.refobjsubid = g.number)
  LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
  LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
  WHERE r.ev_class <> g.relation
    OR d.classid IN ('pg_proc'::regclass, 'pg_publication_rel'::regclass)
    OR (g.number > 0 AND (d.classid = 'pg_policy'::regclass
                          OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
  UNION
  SELECT pg_describe_object('pg_constraint'::regclass, c.oid, 0)
  FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
  WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
  UNION
  SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND p.prosrc ~* '\msite_progress\M'
    AND to_regclass('site_progress') IS NOT NULL
)
SELECT count(*) AS dependents, min(dependent) AS for_example
FROM others
) SELECT count(*), coalesce(bool_and((q."dependents" = 0 AND q."dependents"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'no-dependents', 'outcome', outcome, 'level', 'block',
    'required', 'dependents = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- soak: days_held >= 7 and days_since_last_record <= 2
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM set_config('row_security', 'off', true);
    PERFORM set_config('TimeZone', 'UTC', true);
    PERFORM set_config('standard_conforming_strings', 'on', true);
    PERFORM set_config('DateStyle', 'ISO, MDY', true);
    PERFORM set_config('IntervalStyle', 'postgres', true);
    PERFORM set_config('transform_null_equals', 'off', true);
    PERFORM set_config('array_nulls', 'on', true);
    PERFORM set_config('extra_float_digits', '1', true);
    PERFORM set_config('quote_all_identifiers', 'off', true);
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT round(CAST(extract(epoch FROM now() - min(recorded_at)) / 86400 AS numeric), 2) AS days_held,
       round(CAST(extract(epoch FROM now() - max(recorded_at)) / 86400 AS numeric), 2) AS days_since_last_record,
       count(*) AS records
FROM pipestate.run
WHERE event = 'verify' AND runbook = 'sites-consolidation' AND phase = 'backfill' AND gate = 'open'
  AND id > (SELECT coalesce(max(c.id), 0) FROM pipestate.run c
            WHERE c.event = 'verify' AND c.runbook = 'sites-consolidation' AND c.phase = 'backfill'
              AND c.gate = 'closed')
) SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."days_since_last_record" <= 2 AND q."days_since_last_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'soak', 'outcome', outcome, 'level', 'block',
    'required', 'days_held >= 7 and days_since_last_record <= 2', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- the gate sites-consolidation/readiness: open or closed
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> (CASE WHEN (look ->> 'before')::boolean THEN ARRAY['recent-site-progress-writes']::text[] ELSE ARRAY['backup-taken', 'stuck-sites', 'reconciliation-runs', 'health-score', 'manual-interventions', 'recent-site-progress-writes', 'recent-legacy-column-writes', 'no-dependents', 'soak']::text[] END) THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', r ->> 'message'), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
    END IF;
    IF found IS NOT NULL OR NOT (look ->> 'before')::boolean THEN
  IF pg_catalog.to_regclass('pipestate.run') IS NOT NULL THEN
    DECLARE
      stranger record;
    BEGIN
    SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = (SELECT me.oid FROM pg_catalog.pg_roles me WHERE me.rolname = current_user)
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR (NOT (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user) AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    WITH recorded AS (
      INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped, reason)
      VALUES (CASE WHEN found IS NOT NULL THEN 'force' ELSE 'gate' END, current_user, 'sites-consolidation', 'readiness', CASE WHEN found IS NOT NULL THEN 'closed' ELSE 'open' END, '72ca5a865f8b00cc78d632fc185c94f8010a09d02be376a077bfbe33211dbe99', '0006', (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'passed'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'failed' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome IN ('failed', 'errored') AND judged.level = 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'errored' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'skipped'), CASE WHEN found IS NOT NULL THEN '' END) RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
    SELECT recorded.id, judged.check_id, judged.outcome, judged.level, judged.required, judged.observed, judged.message, judged.duration_ms
    FROM recorded, pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (check_id text, outcome text, level text, required text, observed jsonb, message text, duration_ms double precision);
    END;
  END IF;
    END IF;
  END IF;
  PERFORM set_config('pipestate.gate', '0006', true);
END $pipestate$;

-- a condition that must not hold
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('site_progress cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

-- a condition that must not hold
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NOT NULL AND (true) AND to_regclass('pipestate_archive.site_progress') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.site_progress exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)$ddl$;
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (true)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '200ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '50ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN ACCESS EXCLUSIVE MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
DECLARE
  todo text;
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (true)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('site_progress')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE site_progress ' || todo; END IF;
  EXECUTE 'ALTER TABLE site_progress SET SCHEMA pipestate_archive';
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF (true) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF (true) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)$ddl$;
END IF;
END $pipestate$$stmt$;
END $pipestate_$;

DO $pipestate$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition) VALUES ('table', 'site_progress', current_schema(), '{"absent": true}') ON CONFLICT DO NOTHING$stmt$;
END $pipestate$;

DO $pipestate$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate before this statement was not passed in this transaction, so it does nothing');
  END IF;
  EXECUTE $stmt$UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0005'$stmt$;
END $pipestate$;

COMMIT;

