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

-- Running downgrade 0003 -> 0002

\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

-- The ledger belongs to a trusted role, and has the functions of this script
DO $pipestate$
DECLARE
  stranger record;
BEGIN
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema '::text || n.nspname::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('pipestate', 'pipestate_archive')
    UNION ALL
    SELECT n.nspname::text || '.'::text || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT n.nspname::text || '.'::text || p.proname::text || '()'::text, p.proowner
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('pipestate', 'pipestate_archive')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND (pg_catalog.pg_has_role(o.owner, 'USAGE'::text) OR pg_catalog.pg_has_role(o.owner,
        CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))))) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'pipestate' AND c.relname = 'run') THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this database has no ledger: run `pipestate ledger install`, or a revision that calls install_ledger()');
  END IF;
  IF (SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.bool_and(
      pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT'))
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
                      AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
    WHERE n.nspname = 'pipestate' AND c.relname IN ('run', 'result') GROUP BY n.oid) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.replace('this role may not use the ledger, which gates and scripts need. As its owner: GRANT USAGE ON SCHEMA pipestate TO {role}; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA pipestate TO {role}; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA pipestate TO {role}', '{role}', pg_catalog.quote_ident(current_user::text));
  END IF;
  IF (SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.string_agg(
        pg_catalog.concat_ws(' ', p.proname, p.prosecdef, p.proconfig::text,
          pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p.prosrc, 'UTF8')), 'hex')),
        E'\n' ORDER BY pg_catalog.concat_ws(' ', p.proname, p.prosecdef, p.proconfig::text,
          pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p.prosrc, 'UTF8')), 'hex')) COLLATE "C"), 'UTF8')), 'hex')
      FROM pg_catalog.pg_proc p WHERE p.pronamespace = pg_catalog.to_regnamespace('pipestate'))
      IS DISTINCT FROM '7cf914e93cbe95b8be752a86075972eda81d929daba738ec98d611f7aca7cab5' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'the functions of the ledger are not those that this script was written for (version 1): update them with pipestate ledger install, or write the script again';
  END IF;
  PERFORM pg_catalog.set_config('pipestate.compared', 'yes', false);
END $pipestate$;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0003'), ('0003'); END $open$;

CALL pipestate.begin_revision('0003');

-- The database is at revision 0003, and no other migration is running
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0003' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0003, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

CALL pipestate.drop_table('pipeline_reconciliation', 'pipeline_reconciliation', '0003');

CALL pipestate.drop_table('pipeline_claim', 'pipeline_claim', '0003');

CALL pipestate.drop_table('pipeline_job', 'pipeline_job', '0003');

SELECT set_config('pipestate.part', '0003/1', false);

CALL pipestate.end_revision('0003', 'downgrade', 'refuse', NULL, '', true);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_sites_contradictions' WHERE to_regclass('idx_sites_contradictions') IS NOT NULL AND pipestate.is_ours('index', 'idx_sites_contradictions')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_sites_contradictions';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_sites_legacy_times' WHERE to_regclass('idx_sites_legacy_times') IS NOT NULL AND pipestate.is_ours('index', 'idx_sites_legacy_times')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_sites_legacy_times';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_site_progress_ocr' WHERE to_regclass('idx_site_progress_ocr') IS NOT NULL AND pipestate.is_ours('index', 'idx_site_progress_ocr')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_site_progress_ocr';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_site_progress_touched' WHERE to_regclass('idx_site_progress_touched') IS NOT NULL AND pipestate.is_ours('index', 'idx_site_progress_touched')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_site_progress_touched';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_sites_current_stage' WHERE to_regclass('idx_sites_current_stage') IS NOT NULL AND pipestate.is_ours('index', 'idx_sites_current_stage')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_sites_current_stage';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_sites_updated_at' WHERE to_regclass('idx_sites_updated_at') IS NOT NULL AND pipestate.is_ours('index', 'idx_sites_updated_at')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_sites_updated_at';

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_sites_coordinator_enqueued' WHERE to_regclass('idx_sites_coordinator_enqueued') IS NOT NULL AND pipestate.is_ours('index', 'idx_sites_coordinator_enqueued')
  AND current_setting('pipestate.part', true) = '0003/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_sites_coordinator_enqueued';

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0003'), ('0003'); END $open$;

CALL pipestate.begin_revision('0003');

CALL pipestate.require_part('0003/1');

CALL pipestate.drop_constraint('sites', 'ck_sites_current_stage');

CALL pipestate.drop_constraint('sites', 'ck_sites_fetch_counters');

CALL pipestate.drop_constraint('sites', 'ck_sites_ocr_counters');

CALL pipestate.drop_constraint('sites', 'ck_sites_compilation_counters');

CALL pipestate.drop_constraint('sites', 'ck_sites_extraction_counters');

CALL pipestate.drop_constraint('sites', 'ck_sites_deploy_counters');

CALL pipestate.drop_columns('sites',
  ARRAY['current_stage', 'started_at', 'updated_at', 'fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total',
    'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed',
    'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed',
    'deploy_failed', 'coordinator_enqueued', 'last_error_stage', 'last_error_message', 'last_error_at']);

CALL pipestate.end_revision('0003', 'downgrade', 'refuse', NULL, '', true);

CALL pipestate.record_revision('downgrade', '0003', 'Expand: pipeline state and atomic counters on `sites`.', '52fa0c28477ae257a4d3196f3f063a6ab0e42c773dd2d880e5e0558878869449', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0002' WHERE pipestate_alembic_version.version_num = '0003';

COMMIT;

DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0002', 'a person');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

