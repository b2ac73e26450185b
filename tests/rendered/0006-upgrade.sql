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
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running upgrade 0005 -> 0006

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0005' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0005, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- the gate sites-consolidation/readiness, revision 0006, pass 1
\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

SET LOCAL standard_conforming_strings = on;

SET LOCAL client_encoding = 'UTF8';

-- where the database stands, and whether there is anything to lose
DO $pipestate$
DECLARE
  planted text;
  filled boolean := false;
  before boolean;
  t text;
BEGIN
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    SELECT found.names INTO planted FROM (WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'::name
), found AS MATERIALIZED (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11::oid)
  UNION ALL
  SELECT 'operator '::text || o.oid::pg_catalog.regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11::oid)
  UNION ALL
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted) AS found (names);
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF planted IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('somebody else has put names of the server''s, or a schema of this role''s name, on the search path: %s. A check may read them instead of what was meant, so the gate of revision 0006 cannot be asked: drop them, or take them off the path', planted);
  END IF;
  IF current_setting('client_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this script is written in UTF-8, and the session reads %s: run all of it, or \encoding UTF8 first', current_setting('client_encoding'));
  END IF;
  IF NOT (ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0005']::text[])
      OR ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0006']::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('revision 0006 starts at 0005, but the database is at %s: nothing of it was done', coalesce(nullif(array_to_string(ARRAY(SELECT version_num::text FROM pipestate_alembic_version), ' '), ''), 'base'));
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate of revision 0006 needs READ COMMITTED, and this transaction is %s: its second look would not see what was written before the lock. Give the engine isolation_level=''READ COMMITTED'', or change default_transaction_isolation of the role or the database', upper(current_setting('transaction_isolation')));
  END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken' AND age_seconds < 86400
) SELECT count(*), coalesce(bool_and((q."people" >= 1 AND q."people"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', SQLERRM);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(trunc(100.0 * CAST(count(*) FILTER (WHERE stuck) AS numeric)
                      / nullif(CAST(count(*) AS numeric), 0.0), 2), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage::text < 'completed' OR current_stage::text > 'completed') AS in_flight
) SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'stuck-sites', 'outcome', outcome, 'level', 'block',
    'required', 'stuck_pct < 1.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH stuck AS (
  SELECT count(*) AS sites FROM sites
  WHERE (current_stage::text < 'completed' OR current_stage::text > 'completed')
    AND (updated_at IS NULL OR updated_at < now() - interval '2 hours')
), known AS (
  SELECT count(*) AS sites
  FROM (SELECT 1 FROM sites WHERE current_stage IS NOT NULL
        LIMIT (SELECT greatest(10000, 100 * sites) FROM stuck)) AS counted
)
SELECT stuck.sites AS stuck, known.sites AS total,
       coalesce(trunc(100.0 * CAST(known.sites - stuck.sites AS numeric)
                      / nullif(CAST(known.sites AS numeric), 0.0), 2), 100.0) AS health_score
FROM stuck, known
) SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'health-score', 'outcome', outcome, 'level', 'block',
    'required', 'health_score >= 95.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- reconciliation-runs: runs = 10 and most_found < 5 and minutes_ago <= 60
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS runs, max(found) AS most_found,
       ceil(extract(epoch FROM now() - max(finished_at))::numeric / 6.0) / 10.0 AS minutes_ago
FROM (SELECT r.found, r.finished_at FROM pipeline_reconciliation r
      WHERE r.triggered_by::text = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.finished_at DESC, r.id DESC LIMIT 10) AS latest
) SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE AND (q."minutes_ago" <= 60 AND q."minutes_ago"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'reconciliation-runs', 'outcome', outcome, 'level', 'block',
    'required', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE triggered_by::text = 'manual'
                        AND started_at > now() - interval '7 days') AS interventions,
       trunc(extract(epoch FROM now() - min(started_at))::numeric / 86400.0, 2) AS days_on_record
FROM pipeline_reconciliation
) SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'manual-interventions', 'outcome', outcome, 'level', 'block',
    'required', 'interventions = 0 and days_on_record >= 7', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-site-progress-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT CASE WHEN p.updated_at > now() - interval '24 hours' THEN 'updated within 24 hours'
            ELSE 'begun within 24 hours' END AS fault,
       p.subdomain, p.current_stage, p.updated_at, p.started_at
FROM site_progress p
WHERE greatest(p.updated_at, p.started_at) > now() - interval '24 hours'
ORDER BY coalesce(p.updated_at, p.started_at) DESC, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-site-progress-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-legacy-column-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
-- The first row stands in for a column that this application never had.
SELECT 'written within 36 hours' AS fault, late.*
FROM (SELECT NULL::text AS last_updated, NULL::text AS last_deployed, NULL::text AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS')
               COLLATE "C" AS since) AS otherwise
CROSS JOIN LATERAL (
  SELECT subdomain, last_updated, last_deployed, last_extracted
  FROM sites
  WHERE substr(greatest(
          replace(last_updated::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text)), 1, 40) > since
    AND ((last_updated::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_updated::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_deployed::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_extracted::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text) > since))
) AS late
ORDER BY late.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-legacy-column-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- no-dependents: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH going (what, relation, number, name) AS (
  SELECT 'site_progress', pg_catalog.to_regclass('site_progress')::oid, 0, 'site_progress'
  UNION ALL
  SELECT 'sites.' || attname::text, attrelid, attnum::integer, attname::text FROM pg_attribute
  WHERE attrelid = pg_catalog.to_regclass('sites')::oid AND NOT attisdropped AND attname IN (
    'status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), function AS MATERIALIZED (
  SELECT p.oid, lower(p.prosrc) AS body,
         EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgfoid = p.oid
                 AND t.tgrelid = pg_catalog.to_regclass('sites')::oid) AS fires_on_sites
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384 AND n.nspname !~ '^(pg_|pipestate|information_schema$)' -- not the server's
)
SELECT 'depends on it' AS fault, g.what, pg_describe_object(d.classid, d.objid, 0) AS dependent
FROM going g
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass::oid AND d.refobjid = g.relation
  AND (g.number = 0 OR d.refobjsubid = g.number)
JOIN pg_class catalogue ON catalogue.oid = d.classid
LEFT JOIN pg_rewrite r ON catalogue.relname = 'pg_rewrite' AND r.oid = d.objid
LEFT JOIN pg_trigger t ON catalogue.relname = 'pg_trigger' AND t.oid = d.objid
WHERE r.ev_class <> g.relation
   OR catalogue.relname IN ('pg_proc', 'pg_publication_rel')
   OR (g.number > 0 AND (catalogue.relname = 'pg_policy'
                         OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
UNION
SELECT 'points at it', g.what, pg_describe_object('pg_constraint'::regclass::oid, c.oid, 0)
FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
UNION
SELECT 'names it', g.what, pg_describe_object('pg_proc'::regclass::oid, f.oid, 0)
FROM function f JOIN going g ON g.relation IS NOT NULL AND f.body ~ ('\m' || g.name || '\M')
WHERE g.number = 0
   OR f.body ~ ('\msites\.' || g.name || '\M')
   OR (f.fires_on_sites AND f.body ~ ('\m(new|old)\.' || g.name || '\M'))
   OR (f.body ~ '\msites\M' AND NOT EXISTS (
         SELECT 1 FROM pg_attribute a
         JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
         JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE a.attname = g.name AND NOT a.attisdropped AND c.oid <> g.relation
           AND n.nspname !~ '^(pg_|pipestate|information_schema$)'
           AND strpos(f.body, lower(c.relname::text)) > 0))
ORDER BY 2, 3
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'no-dependents', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- soak: days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT * FROM pipestate.soak_since WHERE runbook = 'sites-consolidation' AND phase = 'backfill'
ORDER BY longest_gap_hours <= 48 DESC, days_held DESC LIMIT 1
) SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."longest_gap_hours" <= 48 AND q."longest_gap_hours"::text <> 'NaN') IS TRUE AND (q."hours_since_last_record" <= 48 AND q."hours_since_last_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'soak', 'outcome', outcome, 'level', 'block',
    'required', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- backfill-complete: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT 'not backfilled' AS fault, p.subdomain, p.stage_total, p.stage_completed, p.updated_at
FROM site_progress p
JOIN sites s ON s.subdomain::text = p.subdomain::text
WHERE p.current_stage::text = 'ocr' AND s.current_stage IS NULL
  AND (p.updated_at IS NULL OR p.updated_at < now() - interval '2 hours')
ORDER BY p.updated_at NULLS FIRST, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'backfill-complete', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- the gate sites-consolidation/readiness: open or closed
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> ARRAY['backup-taken', 'stuck-sites', 'health-score', 'reconciliation-runs', 'manual-interventions', 'recent-site-progress-writes', 'recent-legacy-column-writes', 'no-dependents', 'soak', 'backfill-complete']::text[] THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', regexp_replace(r ->> 'message', '[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', '?', 'g')), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
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
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    WITH recorded AS (
      INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped, reason)
      VALUES (CASE WHEN found IS NOT NULL THEN 'force' ELSE 'gate' END, current_user, 'sites-consolidation', 'readiness', CASE WHEN found IS NOT NULL THEN 'closed' ELSE 'open' END, '50e4ade31b96b2765ca7c28545e36860d8543e959e273de6a98af0f4c600dd25', '0006', (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'passed'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'failed' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome IN ('failed', 'errored') AND judged.level = 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'errored' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'skipped'), CASE WHEN found IS NOT NULL THEN '' END) RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
    SELECT recorded.id, judged.check_id, judged.outcome, judged.level, judged.required, judged.observed, judged.message, judged.duration_ms
    FROM recorded, pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (check_id text, outcome text, level text, required text, observed jsonb, message text, duration_ms double precision);
    EXCEPTION WHEN undefined_column OR undefined_table THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the ledger of this database is older than the pipestate that wrote this script (%s): bring it up to date with pipestate ledger install, then run the script again', SQLERRM);
    END;
  END IF;
    END IF;
  ELSE
    NULL;
  END IF;
  PERFORM set_config('pipestate.look', (look || jsonb_build_object('of', '0006/1 passed'))::text, true);
END $pipestate$;

-- what could not come back as it was: site_progress
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '0006';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := true;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$;

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$;

-- when each row of sites was changed last
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_source CONSTANT text := 'sites';
  the_changed_at CONSTANT text := 'updated_at';
  the_baseline CONSTANT text := 'pipestate_archive.site_progress_before_0006';
  key text[] := the_key;
  names text;
BEGIN
IF to_regclass(the_table) IS NULL OR to_regclass(the_source) IS NULL THEN RETURN; END IF;
  -- That of a table which is in the archive is not replaced: archive_table refuses this one.
  IF EXISTS (SELECT FROM pipestate_archive.manifest
             WHERE definition ->> 'baseline' = the_baseline AND to_regclass(aside) IS NOT NULL) THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = k.attnum
                 WHERE indrelid = to_regclass(the_table) AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  names := (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name);
  EXECUTE format('DROP TABLE IF EXISTS %s', the_baseline);
  EXECUTE format('CREATE TABLE %s AS SELECT %s, %I AS pipestate_changed_at FROM %s',
                 the_baseline, names, the_changed_at, the_source);
  EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', the_baseline, names);
  EXECUTE format('ANALYZE %s', the_baseline);
END $pipestate$;

-- the gate sites-consolidation/readiness, revision 0006, pass 1
\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

SET LOCAL standard_conforming_strings = on;

SET LOCAL client_encoding = 'UTF8';

-- where the database stands, and whether there is anything to lose
DO $pipestate$
DECLARE
  planted text;
  filled boolean := false;
  before boolean;
  t text;
BEGIN
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    SELECT found.names INTO planted FROM (WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'::name
), found AS MATERIALIZED (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11::oid)
  UNION ALL
  SELECT 'operator '::text || o.oid::pg_catalog.regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11::oid)
  UNION ALL
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted) AS found (names);
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF planted IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('somebody else has put names of the server''s, or a schema of this role''s name, on the search path: %s. A check may read them instead of what was meant, so the gate of revision 0006 cannot be asked: drop them, or take them off the path', planted);
  END IF;
  IF current_setting('client_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this script is written in UTF-8, and the session reads %s: run all of it, or \encoding UTF8 first', current_setting('client_encoding'));
  END IF;
  IF NOT (ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0005']::text[])
      OR ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0006']::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('revision 0006 starts at 0005, but the database is at %s: nothing of it was done', coalesce(nullif(array_to_string(ARRAY(SELECT version_num::text FROM pipestate_alembic_version), ' '), ''), 'base'));
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate of revision 0006 needs READ COMMITTED, and this transaction is %s: its second look would not see what was written before the lock. Give the engine isolation_level=''READ COMMITTED'', or change default_transaction_isolation of the role or the database', upper(current_setting('transaction_isolation')));
  END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken' AND age_seconds < 86400
) SELECT count(*), coalesce(bool_and((q."people" >= 1 AND q."people"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', SQLERRM);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(trunc(100.0 * CAST(count(*) FILTER (WHERE stuck) AS numeric)
                      / nullif(CAST(count(*) AS numeric), 0.0), 2), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage::text < 'completed' OR current_stage::text > 'completed') AS in_flight
) SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'stuck-sites', 'outcome', outcome, 'level', 'block',
    'required', 'stuck_pct < 1.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH stuck AS (
  SELECT count(*) AS sites FROM sites
  WHERE (current_stage::text < 'completed' OR current_stage::text > 'completed')
    AND (updated_at IS NULL OR updated_at < now() - interval '2 hours')
), known AS (
  SELECT count(*) AS sites
  FROM (SELECT 1 FROM sites WHERE current_stage IS NOT NULL
        LIMIT (SELECT greatest(10000, 100 * sites) FROM stuck)) AS counted
)
SELECT stuck.sites AS stuck, known.sites AS total,
       coalesce(trunc(100.0 * CAST(known.sites - stuck.sites AS numeric)
                      / nullif(CAST(known.sites AS numeric), 0.0), 2), 100.0) AS health_score
FROM stuck, known
) SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'health-score', 'outcome', outcome, 'level', 'block',
    'required', 'health_score >= 95.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- reconciliation-runs: runs = 10 and most_found < 5 and minutes_ago <= 60
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS runs, max(found) AS most_found,
       ceil(extract(epoch FROM now() - max(finished_at))::numeric / 6.0) / 10.0 AS minutes_ago
FROM (SELECT r.found, r.finished_at FROM pipeline_reconciliation r
      WHERE r.triggered_by::text = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.finished_at DESC, r.id DESC LIMIT 10) AS latest
) SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE AND (q."minutes_ago" <= 60 AND q."minutes_ago"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'reconciliation-runs', 'outcome', outcome, 'level', 'block',
    'required', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE triggered_by::text = 'manual'
                        AND started_at > now() - interval '7 days') AS interventions,
       trunc(extract(epoch FROM now() - min(started_at))::numeric / 86400.0, 2) AS days_on_record
FROM pipeline_reconciliation
) SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'manual-interventions', 'outcome', outcome, 'level', 'block',
    'required', 'interventions = 0 and days_on_record >= 7', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-site-progress-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT CASE WHEN p.updated_at > now() - interval '24 hours' THEN 'updated within 24 hours'
            ELSE 'begun within 24 hours' END AS fault,
       p.subdomain, p.current_stage, p.updated_at, p.started_at
FROM site_progress p
WHERE greatest(p.updated_at, p.started_at) > now() - interval '24 hours'
ORDER BY coalesce(p.updated_at, p.started_at) DESC, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-site-progress-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-legacy-column-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
-- The first row stands in for a column that this application never had.
SELECT 'written within 36 hours' AS fault, late.*
FROM (SELECT NULL::text AS last_updated, NULL::text AS last_deployed, NULL::text AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS')
               COLLATE "C" AS since) AS otherwise
CROSS JOIN LATERAL (
  SELECT subdomain, last_updated, last_deployed, last_extracted
  FROM sites
  WHERE substr(greatest(
          replace(last_updated::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text)), 1, 40) > since
    AND ((last_updated::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_updated::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_deployed::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_extracted::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text) > since))
) AS late
ORDER BY late.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-legacy-column-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- no-dependents: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH going (what, relation, number, name) AS (
  SELECT 'site_progress', pg_catalog.to_regclass('site_progress')::oid, 0, 'site_progress'
  UNION ALL
  SELECT 'sites.' || attname::text, attrelid, attnum::integer, attname::text FROM pg_attribute
  WHERE attrelid = pg_catalog.to_regclass('sites')::oid AND NOT attisdropped AND attname IN (
    'status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), function AS MATERIALIZED (
  SELECT p.oid, lower(p.prosrc) AS body,
         EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgfoid = p.oid
                 AND t.tgrelid = pg_catalog.to_regclass('sites')::oid) AS fires_on_sites
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384 AND n.nspname !~ '^(pg_|pipestate|information_schema$)' -- not the server's
)
SELECT 'depends on it' AS fault, g.what, pg_describe_object(d.classid, d.objid, 0) AS dependent
FROM going g
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass::oid AND d.refobjid = g.relation
  AND (g.number = 0 OR d.refobjsubid = g.number)
JOIN pg_class catalogue ON catalogue.oid = d.classid
LEFT JOIN pg_rewrite r ON catalogue.relname = 'pg_rewrite' AND r.oid = d.objid
LEFT JOIN pg_trigger t ON catalogue.relname = 'pg_trigger' AND t.oid = d.objid
WHERE r.ev_class <> g.relation
   OR catalogue.relname IN ('pg_proc', 'pg_publication_rel')
   OR (g.number > 0 AND (catalogue.relname = 'pg_policy'
                         OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
UNION
SELECT 'points at it', g.what, pg_describe_object('pg_constraint'::regclass::oid, c.oid, 0)
FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
UNION
SELECT 'names it', g.what, pg_describe_object('pg_proc'::regclass::oid, f.oid, 0)
FROM function f JOIN going g ON g.relation IS NOT NULL AND f.body ~ ('\m' || g.name || '\M')
WHERE g.number = 0
   OR f.body ~ ('\msites\.' || g.name || '\M')
   OR (f.fires_on_sites AND f.body ~ ('\m(new|old)\.' || g.name || '\M'))
   OR (f.body ~ '\msites\M' AND NOT EXISTS (
         SELECT 1 FROM pg_attribute a
         JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
         JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE a.attname = g.name AND NOT a.attisdropped AND c.oid <> g.relation
           AND n.nspname !~ '^(pg_|pipestate|information_schema$)'
           AND strpos(f.body, lower(c.relname::text)) > 0))
ORDER BY 2, 3
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'no-dependents', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- soak: days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT * FROM pipestate.soak_since WHERE runbook = 'sites-consolidation' AND phase = 'backfill'
ORDER BY longest_gap_hours <= 48 DESC, days_held DESC LIMIT 1
) SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."longest_gap_hours" <= 48 AND q."longest_gap_hours"::text <> 'NaN') IS TRUE AND (q."hours_since_last_record" <= 48 AND q."hours_since_last_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'soak', 'outcome', outcome, 'level', 'block',
    'required', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- backfill-complete: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT 'not backfilled' AS fault, p.subdomain, p.stage_total, p.stage_completed, p.updated_at
FROM site_progress p
JOIN sites s ON s.subdomain::text = p.subdomain::text
WHERE p.current_stage::text = 'ocr' AND s.current_stage IS NULL
  AND (p.updated_at IS NULL OR p.updated_at < now() - interval '2 hours')
ORDER BY p.updated_at NULLS FIRST, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'backfill-complete', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- the gate sites-consolidation/readiness: open or closed
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> ARRAY['backup-taken', 'stuck-sites', 'health-score', 'reconciliation-runs', 'manual-interventions', 'recent-site-progress-writes', 'recent-legacy-column-writes', 'no-dependents', 'soak', 'backfill-complete']::text[] THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', regexp_replace(r ->> 'message', '[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', '?', 'g')), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
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
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    WITH recorded AS (
      INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped, reason)
      VALUES (CASE WHEN found IS NOT NULL THEN 'force' ELSE 'gate' END, current_user, 'sites-consolidation', 'readiness', CASE WHEN found IS NOT NULL THEN 'closed' ELSE 'open' END, '50e4ade31b96b2765ca7c28545e36860d8543e959e273de6a98af0f4c600dd25', '0006', (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'passed'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'failed' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome IN ('failed', 'errored') AND judged.level = 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'errored' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'skipped'), CASE WHEN found IS NOT NULL THEN '' END) RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
    SELECT recorded.id, judged.check_id, judged.outcome, judged.level, judged.required, judged.observed, judged.message, judged.duration_ms
    FROM recorded, pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (check_id text, outcome text, level text, required text, observed jsonb, message text, duration_ms double precision);
    EXCEPTION WHEN undefined_column OR undefined_table THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the ledger of this database is older than the pipestate that wrote this script (%s): bring it up to date with pipestate ledger install, then run the script again', SQLERRM);
    END;
  END IF;
    END IF;
  ELSE
    NULL;
  END IF;
  PERFORM set_config('pipestate.look', (look || jsonb_build_object('of', '0006/1 passed'))::text, true);
END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- the gate sites-consolidation/readiness, revision 0006, pass 2
\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

SET LOCAL standard_conforming_strings = on;

SET LOCAL client_encoding = 'UTF8';

-- where the database stands, and whether there is anything to lose
DO $pipestate$
DECLARE
  planted text;
  filled boolean := false;
  before boolean;
  t text;
BEGIN
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    SELECT found.names INTO planted FROM (WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'::name
), found AS MATERIALIZED (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11::oid)
  UNION ALL
  SELECT 'operator '::text || o.oid::pg_catalog.regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11::oid)
  UNION ALL
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted) AS found (names);
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF planted IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('somebody else has put names of the server''s, or a schema of this role''s name, on the search path: %s. A check may read them instead of what was meant, so the gate of revision 0006 cannot be asked: drop them, or take them off the path', planted);
  END IF;
  IF current_setting('client_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this script is written in UTF-8, and the session reads %s: run all of it, or \encoding UTF8 first', current_setting('client_encoding'));
  END IF;
  IF NOT (ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0005']::text[])
      OR ARRAY(SELECT version_num::text FROM pipestate_alembic_version) @> ARRAY['0006']::text[] THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('revision 0006 starts at 0005, but the database is at %s: nothing of it was done', coalesce(nullif(array_to_string(ARRAY(SELECT version_num::text FROM pipestate_alembic_version), ' '), ''), 'base'));
  END IF;
  IF nullif(current_setting('pipestate.look', true), '')::jsonb ->> 'of'
      IS DISTINCT FROM '0006/1 passed'
      OR EXISTS (SELECT FROM unnest(ARRAY['site_progress']) AS wanted
                 WHERE to_regclass(wanted) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock' AND relation = to_regclass(wanted))) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  before := (current_setting('pipestate.look')::jsonb ->> 'filled')::boolean;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate of revision 0006 needs READ COMMITTED, and this transaction is %s: its second look would not see what was written before the lock. Give the engine isolation_level=''READ COMMITTED'', or change default_transaction_isolation of the role or the database', upper(current_setting('transaction_isolation')));
  END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken' AND age_seconds < 86400
) SELECT count(*), coalesce(bool_and((q."people" >= 1 AND q."people"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:519', SQLERRM);
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(trunc(100.0 * CAST(count(*) FILTER (WHERE stuck) AS numeric)
                      / nullif(CAST(count(*) AS numeric), 0.0), 2), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage::text < 'completed' OR current_stage::text > 'completed') AS in_flight
) SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:560', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'stuck-sites', 'outcome', outcome, 'level', 'block',
    'required', 'stuck_pct < 1.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH stuck AS (
  SELECT count(*) AS sites FROM sites
  WHERE (current_stage::text < 'completed' OR current_stage::text > 'completed')
    AND (updated_at IS NULL OR updated_at < now() - interval '2 hours')
), known AS (
  SELECT count(*) AS sites
  FROM (SELECT 1 FROM sites WHERE current_stage IS NOT NULL
        LIMIT (SELECT greatest(10000, 100 * sites) FROM stuck)) AS counted
)
SELECT stuck.sites AS stuck, known.sites AS total,
       coalesce(trunc(100.0 * CAST(known.sites - stuck.sites AS numeric)
                      / nullif(CAST(known.sites AS numeric), 0.0), 2), 100.0) AS health_score
FROM stuck, known
) SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:589', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'health-score', 'outcome', outcome, 'level', 'block',
    'required', 'health_score >= 95.0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- reconciliation-runs: runs = 10 and most_found < 5 and minutes_ago <= 60
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) AS runs, max(found) AS most_found,
       ceil(extract(epoch FROM now() - max(finished_at))::numeric / 6.0) / 10.0 AS minutes_ago
FROM (SELECT r.found, r.finished_at FROM pipeline_reconciliation r
      WHERE r.triggered_by::text = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.finished_at DESC, r.id DESC LIMIT 10) AS latest
) SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE AND (q."minutes_ago" <= 60 AND q."minutes_ago"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:612', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'reconciliation-runs', 'outcome', outcome, 'level', 'block',
    'required', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
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
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT count(*) FILTER (WHERE triggered_by::text = 'manual'
                        AND started_at > now() - interval '7 days') AS interventions,
       trunc(extract(epoch FROM now() - min(started_at))::numeric / 86400.0, 2) AS days_on_record
FROM pipeline_reconciliation
) SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:639', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'manual-interventions', 'outcome', outcome, 'level', 'block',
    'required', 'interventions = 0 and days_on_record >= 7', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-site-progress-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT CASE WHEN p.updated_at > now() - interval '24 hours' THEN 'updated within 24 hours'
            ELSE 'begun within 24 hours' END AS fault,
       p.subdomain, p.current_stage, p.updated_at, p.started_at
FROM site_progress p
WHERE greatest(p.updated_at, p.started_at) > now() - interval '24 hours'
ORDER BY coalesce(p.updated_at, p.started_at) DESC, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-site-progress-writes', 'rows = 0', 'runbooks/sites-consolidation.md:661', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-site-progress-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- recent-legacy-column-writes: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
-- The first row stands in for a column that this application never had.
SELECT 'written within 36 hours' AS fault, late.*
FROM (SELECT NULL::text AS last_updated, NULL::text AS last_deployed, NULL::text AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS')
               COLLATE "C" AS since) AS otherwise
CROSS JOIN LATERAL (
  SELECT subdomain, last_updated, last_deployed, last_extracted
  FROM sites
  WHERE substr(greatest(
          replace(last_updated::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text),
          replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text)), 1, 40) > since
    AND ((last_updated::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_updated::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_deployed::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_deployed::text COLLATE "C", ' '::text, 'T'::text) > since)
      OR (last_extracted::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_extracted::text COLLATE "C", ' '::text, 'T'::text) > since))
) AS late
ORDER BY late.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:681', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'recent-legacy-column-writes', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- no-dependents: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
WITH going (what, relation, number, name) AS (
  SELECT 'site_progress', pg_catalog.to_regclass('site_progress')::oid, 0, 'site_progress'
  UNION ALL
  SELECT 'sites.' || attname::text, attrelid, attnum::integer, attname::text FROM pg_attribute
  WHERE attrelid = pg_catalog.to_regclass('sites')::oid AND NOT attisdropped AND attname IN (
    'status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), function AS MATERIALIZED (
  SELECT p.oid, lower(p.prosrc) AS body,
         EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgfoid = p.oid
                 AND t.tgrelid = pg_catalog.to_regclass('sites')::oid) AS fires_on_sites
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384 AND n.nspname !~ '^(pg_|pipestate|information_schema$)' -- not the server's
)
SELECT 'depends on it' AS fault, g.what, pg_describe_object(d.classid, d.objid, 0) AS dependent
FROM going g
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass::oid AND d.refobjid = g.relation
  AND (g.number = 0 OR d.refobjsubid = g.number)
JOIN pg_class catalogue ON catalogue.oid = d.classid
LEFT JOIN pg_rewrite r ON catalogue.relname = 'pg_rewrite' AND r.oid = d.objid
LEFT JOIN pg_trigger t ON catalogue.relname = 'pg_trigger' AND t.oid = d.objid
WHERE r.ev_class <> g.relation
   OR catalogue.relname IN ('pg_proc', 'pg_publication_rel')
   OR (g.number > 0 AND (catalogue.relname = 'pg_policy'
                         OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
UNION
SELECT 'points at it', g.what, pg_describe_object('pg_constraint'::regclass::oid, c.oid, 0)
FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
UNION
SELECT 'names it', g.what, pg_describe_object('pg_proc'::regclass::oid, f.oid, 0)
FROM function f JOIN going g ON g.relation IS NOT NULL AND f.body ~ ('\m' || g.name || '\M')
WHERE g.number = 0
   OR f.body ~ ('\msites\.' || g.name || '\M')
   OR (f.fires_on_sites AND f.body ~ ('\m(new|old)\.' || g.name || '\M'))
   OR (f.body ~ '\msites\M' AND NOT EXISTS (
         SELECT 1 FROM pg_attribute a
         JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
         JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE a.attname = g.name AND NOT a.attisdropped AND c.oid <> g.relation
           AND n.nspname !~ '^(pg_|pipestate|information_schema$)'
           AND strpos(f.body, lower(c.relname::text)) > 0))
ORDER BY 2, 3
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:715', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'no-dependents', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- soak: days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT * FROM pipestate.soak_since WHERE runbook = 'sites-consolidation' AND phase = 'backfill'
ORDER BY longest_gap_hours <= 48 DESC, days_held DESC LIMIT 1
) SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."longest_gap_hours" <= 48 AND q."longest_gap_hours"::text <> 'NaN') IS TRUE AND (q."hours_since_last_record" <= 48 AND q."hours_since_last_record"::text <> 'NaN') IS TRUE), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 1 AND held THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', left(coalesce(seen::text, n || ' rows'), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'soak', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:793', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'soak', 'outcome', outcome, 'level', 'block',
    'required', 'days_held >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- backfill-complete: rows = 0
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  IF NOT ((look ->> 'filled')::boolean AND NOT (look ->> 'before')::boolean) THEN RETURN; END IF;
  BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    PERFORM pg_catalog.set_config('row_security', 'off', true);
    PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
    PERFORM pg_catalog.set_config('DateStyle', 'ISO, MDY', true);
    PERFORM pg_catalog.set_config('IntervalStyle', 'postgres', true);
    PERFORM pg_catalog.set_config('transform_null_equals', 'off', true);
    PERFORM pg_catalog.set_config('array_nulls', 'on', true);
    PERFORM pg_catalog.set_config('bytea_output', 'hex', true);
    PERFORM pg_catalog.set_config('extra_float_digits', '1', true);
    PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
    PERFORM pg_catalog.set_config('lock_timeout', '10s', true);
    PERFORM pg_catalog.set_config('constraint_exclusion', 'on', true);
    PERFORM pg_catalog.set_config('jit', 'off', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp'), true);
    EXECUTE $check$WITH q AS MATERIALIZED (
SELECT 'not backfilled' AS fault, p.subdomain, p.stage_total, p.stage_completed, p.updated_at
FROM site_progress p
JOIN sites s ON s.subdomain::text = p.subdomain::text
WHERE p.current_stage::text = 'ocr' AND s.current_stage IS NULL
  AND (p.updated_at IS NULL OR p.updated_at < now() - interval '2 hours')
ORDER BY p.updated_at NULLS FIRST, p.subdomain
) SELECT count(*), coalesce(bool_and(true), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q$check$ INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN n = 0 THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', left(n || ' rows' || coalesce(', the first ' || seen::text, ''), 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than 30 s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863');
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', 'backfill-complete', 'rows = 0', 'runbooks/sites-consolidation.md:863', SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', 'backfill-complete', 'outcome', outcome, 'level', 'block',
    'required', 'rows = 0', 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END $pipestate$;

-- the gate sites-consolidation/readiness: open or closed
DO $pipestate$
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> (CASE WHEN (look ->> 'before')::boolean THEN ARRAY['recent-site-progress-writes']::text[] ELSE ARRAY['backup-taken', 'stuck-sites', 'health-score', 'reconciliation-runs', 'manual-interventions', 'recent-site-progress-writes', 'recent-legacy-column-writes', 'no-dependents', 'soak', 'backfill-complete']::text[] END) THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier part of this gate failed or was left out, so this one does nothing: run the whole script');
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', regexp_replace(r ->> 'message', '[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', '?', 'g')), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
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
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
    WITH recorded AS (
      INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped, reason)
      VALUES (CASE WHEN found IS NOT NULL THEN 'force' ELSE 'gate' END, current_user, 'sites-consolidation', 'readiness', CASE WHEN found IS NOT NULL THEN 'closed' ELSE 'open' END, '50e4ade31b96b2765ca7c28545e36860d8543e959e273de6a98af0f4c600dd25', '0006', (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'passed'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'failed' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome IN ('failed', 'errored') AND judged.level = 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'errored' AND judged.level <> 'warn'), (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (outcome text, level text) WHERE judged.outcome = 'skipped'), CASE WHEN found IS NOT NULL THEN '' END) RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
    SELECT recorded.id, judged.check_id, judged.outcome, judged.level, judged.required, judged.observed, judged.message, judged.duration_ms
    FROM recorded, pg_catalog.jsonb_to_recordset(look -> 'results') AS judged (check_id text, outcome text, level text, required text, observed jsonb, message text, duration_ms double precision);
    EXCEPTION WHEN undefined_column OR undefined_table THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the ledger of this database is older than the pipestate that wrote this script (%s): bring it up to date with pipestate ledger install, then run the script again', SQLERRM);
    END;
  END IF;
    END IF;
  ELSE
    RAISE NOTICE '%', 'the gate sites-consolidation/readiness was not asked: there is no row in site_progress, and so nothing to lose';
  END IF;
  PERFORM set_config('pipestate.gate', '0006', true);
END $pipestate$;

-- conditions that must not hold
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('a Contract destroys something, and no gate was asked for it: call it inside `with gate(...)`, or make the revision a Contract');
END IF;
IF to_regclass('site_progress') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock' AND relation = to_regclass('site_progress')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('a Contract destroys something of site_progress, which the gate of this revision has not locked, so its rows were not looked at: name it in gate(..., lock=[...])');
END IF;
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/1', true);
END $pipestate_$;

-- what could not come back as it was: site_progress
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/1' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '0006';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := true;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/2', true);
END $pipestate_$;

-- the archive, where it is missing
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/2' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (true)) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/3', true);
END $pipestate_$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/3' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/4', true);
END $pipestate_$;

-- site_progress into the archive
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/4' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_archive CONSTANT text := 'pipestate_archive';
  the_name CONSTANT text := 'site_progress';
  is_ours CONSTANT boolean := EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress');
  the_baseline CONSTANT text := 'pipestate_archive.site_progress_before_0006';
  applies CONSTANT boolean := true;
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/5', true);
END $pipestate_$;

-- the archive, where it is missing
DO $pipestate_$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/5' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$DO $pipestate$
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, revision, origin, definition) VALUES ('table', 'site_progress', '', coalesce(current_schema(), ''), '{"absent": true}') ON CONFLICT DO NOTHING$ddl$;
END $pipestate$$stmt$;
  PERFORM set_config('pipestate.step', '0006/6', true);
END $pipestate_$;

DO $pipestate$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM '0006' OR current_setting('pipestate.step', true) IS DISTINCT FROM '0006/6' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the gate before this statement was not passed in this transaction, or a statement between them has failed, so it does nothing');
  END IF;
  EXECUTE $stmt$UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0005'$stmt$;
  PERFORM set_config('pipestate.step', '0006/7', true);
END $pipestate$;

COMMIT;

