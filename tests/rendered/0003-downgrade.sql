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

-- The ledger has functions of this version, and belongs to a role that this one trusts
DO $pipestate$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
  other_owner name;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  SELECT pg_get_userbyid(o.owner) INTO other_owner FROM (SELECT nspowner AS owner FROM pg_namespace WHERE nspname = 'pipestate') AS o
   WHERE NOT (o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting('is_superuser') = 'on' AND (pg_has_role(o.owner, 'USAGE') OR pg_has_role(o.owner,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))));
  IF other_owner IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the schema pipestate belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', other_owner, current_user);
  END IF;
  CALL pipestate.require_version('1.ec6251729d4f');
  PERFORM set_config('search_path', path, true);
EXCEPTION
  WHEN undefined_function OR invalid_schema_name THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'this database has no ledger: run `pipestate ledger install`, or a revision that calls install_ledger()';
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the role %1$s may not use the ledger, which gates and scripts need. As its owner: CALL pipestate.grant_migrating(%1$L)', current_user);
END $pipestate$;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0003'), ('0003'); END $open$;

CALL pipestate.begin_revision('0003');

CALL pipestate.require_start('pipestate_alembic_version', '0003');

-- lock sites, site_progress, pipeline_reconciliation, pipeline_claim, pipeline_job where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['sites', 'site_progress', 'pipeline_reconciliation', 'pipeline_claim', 'pipeline_job']);

CALL pipestate.drop_table('pipeline_reconciliation', 'pipeline_reconciliation', '0003');

CALL pipestate.drop_table('pipeline_claim', 'pipeline_claim', '0003');

CALL pipestate.drop_table('pipeline_job', 'pipeline_job', '0003');

CALL pipestate.drop_indexes(ARRAY['idx_sites_contradictions', 'idx_sites_legacy_times', 'idx_sites_without_stage', 'idx_site_progress_ocr',
    'idx_site_progress_touched', 'idx_sites_current_stage', 'idx_sites_updated_at', 'idx_sites_coordinator_enqueued']);

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
    'deploy_failed', 'coordinator_enqueued', 'last_error_stage', 'last_error_message', 'last_error_at'],
  the_revision => '0003');

CALL pipestate.end_revision('0003', 'downgrade', 'refuse', NULL, '', true);

CALL pipestate.record_revision('downgrade', '0003', 'Expand: pipeline state and atomic counters on `sites`.', '08e1746688b2d3be9c85f37ca51562656a7a1a7a5efc26d6a72c5faee26b8e1d', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0002' WHERE pipestate_alembic_version.version_num = '0003';

COMMIT;

DO $record$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0002', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

