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

-- Running upgrade 0002 -> 0003

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

CALL pipestate.require_start('pipestate_alembic_version', '0002');

CALL pipestate.add_columns('sites', $${
  "current_stage": "VARCHAR",
  "started_at": "TIMESTAMP WITH TIME ZONE",
  "updated_at": "TIMESTAMP WITH TIME ZONE",
  "fetch_total": "INTEGER DEFAULT 0 NOT NULL",
  "fetch_completed": "INTEGER DEFAULT 0 NOT NULL",
  "fetch_failed": "INTEGER DEFAULT 0 NOT NULL",
  "ocr_total": "INTEGER DEFAULT 0 NOT NULL",
  "ocr_completed": "INTEGER DEFAULT 0 NOT NULL",
  "ocr_failed": "INTEGER DEFAULT 0 NOT NULL",
  "compilation_total": "INTEGER DEFAULT 0 NOT NULL",
  "compilation_completed": "INTEGER DEFAULT 0 NOT NULL",
  "compilation_failed": "INTEGER DEFAULT 0 NOT NULL",
  "extraction_total": "INTEGER DEFAULT 0 NOT NULL",
  "extraction_completed": "INTEGER DEFAULT 0 NOT NULL",
  "extraction_failed": "INTEGER DEFAULT 0 NOT NULL",
  "deploy_total": "INTEGER DEFAULT 0 NOT NULL",
  "deploy_completed": "INTEGER DEFAULT 0 NOT NULL",
  "deploy_failed": "INTEGER DEFAULT 0 NOT NULL",
  "coordinator_enqueued": "BOOLEAN DEFAULT false NOT NULL",
  "last_error_stage": "VARCHAR",
  "last_error_message": "TEXT",
  "last_error_at": "TIMESTAMP WITH TIME ZONE"}$$, the_revision => '0003');

CALL pipestate.use_timestamptz('sites', ARRAY['started_at', 'updated_at', 'last_error_at'], 'UTC', ARRAY['idx_sites_updated_at']);

SELECT set_config('pipestate.part', '0003/1', false);

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.update_in_batches('sites', ARRAY['subdomain'], 2000, $$UPDATE sites SET
  fetch_total = coalesce(fetch_total, 0),
  fetch_completed = coalesce(fetch_completed, 0),
  fetch_failed = coalesce(fetch_failed, 0),
  ocr_total = coalesce(ocr_total, 0),
  ocr_completed = coalesce(ocr_completed, 0),
  ocr_failed = coalesce(ocr_failed, 0),
  compilation_total = coalesce(compilation_total, 0),
  compilation_completed = coalesce(compilation_completed, 0),
  compilation_failed = coalesce(compilation_failed, 0),
  extraction_total = coalesce(extraction_total, 0),
  extraction_completed = coalesce(extraction_completed, 0),
  extraction_failed = coalesce(extraction_failed, 0),
  deploy_total = coalesce(deploy_total, 0),
  deploy_completed = coalesce(deploy_completed, 0),
  deploy_failed = coalesce(deploy_failed, 0),
  coordinator_enqueued = coalesce(coordinator_enqueued, false)
WHERE {range} AND (
  fetch_total IS NULL
  OR fetch_completed IS NULL
  OR fetch_failed IS NULL
  OR ocr_total IS NULL
  OR ocr_completed IS NULL
  OR ocr_failed IS NULL
  OR compilation_total IS NULL
  OR compilation_completed IS NULL
  OR compilation_failed IS NULL
  OR extraction_total IS NULL
  OR extraction_completed IS NULL
  OR extraction_failed IS NULL
  OR deploy_total IS NULL
  OR deploy_completed IS NULL
  OR deploy_failed IS NULL
  OR coordinator_enqueued IS NULL)$$,
  the_condition => $$pipestate.is_nullable('sites', ARRAY['fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed',
    'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed',
    'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued'])$$,
  the_part => '0003/1');

BEGIN;

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

CALL pipestate.require_part('0003/1');

CALL pipestate.begin_not_null('sites', 'ck_sites_present',
  ARRAY['fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed',
    'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed',
    'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued']);

SELECT set_config('pipestate.part', '0003/2', false);

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('sites', ARRAY['ck_sites_present'], the_part => '0003/2');

BEGIN;

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

CALL pipestate.require_part('0003/2');

CALL pipestate.require_valid('sites', ARRAY['ck_sites_present'], false);

CALL pipestate.end_not_null('sites', 'ck_sites_present',
  ARRAY['fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed',
    'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed',
    'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued']);

CALL pipestate.add_checks('sites', $${
  "ck_sites_current_stage": "current_stage IN ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')",
  "ck_sites_fetch_counters": "fetch_total >= 0 AND fetch_completed >= 0 AND fetch_failed >= 0",
  "ck_sites_ocr_counters": "ocr_total >= 0 AND ocr_completed >= 0 AND ocr_failed >= 0",
  "ck_sites_compilation_counters": "compilation_total >= 0 AND compilation_completed >= 0 AND compilation_failed >= 0",
  "ck_sites_extraction_counters": "extraction_total >= 0 AND extraction_completed >= 0 AND extraction_failed >= 0",
  "ck_sites_deploy_counters": "deploy_total >= 0 AND deploy_completed >= 0 AND deploy_failed >= 0"}$$,
  the_revision => '0003');

SELECT set_config('pipestate.part', '0003/3', false);

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('sites',
  ARRAY['ck_sites_current_stage', 'ck_sites_fetch_counters', 'ck_sites_ocr_counters', 'ck_sites_compilation_counters',
    'ck_sites_extraction_counters', 'ck_sites_deploy_counters'], the_part => '0003/3');

BEGIN;

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

CALL pipestate.require_part('0003/3');

CALL pipestate.require_valid('sites',
  ARRAY['ck_sites_current_stage', 'ck_sites_fetch_counters', 'ck_sites_ocr_counters', 'ck_sites_compilation_counters',
    'ck_sites_extraction_counters', 'ck_sites_deploy_counters'], true);

CALL pipestate.prepare_index('idx_sites_current_stage', 'sites', '(current_stage)', the_revision => '0003');

CALL pipestate.prepare_index('idx_sites_updated_at', 'sites', '(updated_at)', the_revision => '0003');

CALL pipestate.prepare_index('idx_sites_coordinator_enqueued', 'sites',
  '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)', the_revision => '0003');

CALL pipestate.prepare_index('idx_sites_contradictions', 'sites',
  $$(subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = 'completed' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)$$,
  the_revision => '0003');

CALL pipestate.prepare_index('idx_sites_legacy_times', 'sites', $$(substr(GREATEST(replace(last_updated::text COLLATE "C", ' ', 'T'),
  replace(last_deployed::text COLLATE "C", ' ', 'T'), replace(last_extracted::text COLLATE "C", ' ', 'T')), 1, 40))$$,
  the_needs => ARRAY['last_updated', 'last_deployed', 'last_extracted'], the_types => ARRAY['text', 'varchar'],
  the_revision => '0003');

CALL pipestate.prepare_index('idx_sites_without_stage', 'sites', '(subdomain) WHERE ((current_stage IS NULL) AND (status IS NOT NULL))',
  the_needs => ARRAY['status'], the_types => ARRAY['text', 'varchar'], the_revision => '0003');

CALL pipestate.prepare_index('idx_site_progress_ocr', 'site_progress', $$(subdomain) WHERE (current_stage = 'ocr')$$,
  the_needs => ARRAY['subdomain', 'current_stage'], the_revision => '0003');

CALL pipestate.prepare_index('idx_site_progress_touched', 'site_progress', '(GREATEST(updated_at, started_at))',
  the_needs => ARRAY['updated_at', 'started_at'], the_types => ARRAY['timestamptz'], the_revision => '0003');

SELECT set_config('pipestate.part', '0003/4', false);

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

SET lock_timeout = '10min';

SELECT step FROM pipestate.index_steps('idx_sites_current_stage', 'sites', '(current_stage)') AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_sites_updated_at', 'sites', '(updated_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_sites_coordinator_enqueued', 'sites',
  '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)') AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_sites_contradictions', 'sites',
  $$(subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = 'completed' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)$$) AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_sites_legacy_times', 'sites', $$(substr(GREATEST(replace(last_updated::text COLLATE "C", ' ', 'T'),
  replace(last_deployed::text COLLATE "C", ' ', 'T'), replace(last_extracted::text COLLATE "C", ' ', 'T')), 1, 40))$$,
  the_needs => ARRAY['last_updated', 'last_deployed', 'last_extracted'], the_types => ARRAY['text', 'varchar']) AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_sites_without_stage', 'sites', '(subdomain) WHERE ((current_stage IS NULL) AND (status IS NOT NULL))',
  the_needs => ARRAY['status'], the_types => ARRAY['text', 'varchar']) AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_site_progress_ocr', 'site_progress', $$(subdomain) WHERE (current_stage = 'ocr')$$,
  the_needs => ARRAY['subdomain', 'current_stage']) AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT step FROM pipestate.index_steps('idx_site_progress_touched', 'site_progress', '(GREATEST(updated_at, started_at))',
  the_needs => ARRAY['updated_at', 'started_at'], the_types => ARRAY['timestamptz']) AS step
  WHERE current_setting('pipestate.part', true) = '0003/4' \gexec

SET lock_timeout = '60s';

BEGIN;

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

CALL pipestate.require_part('0003/4');

CALL pipestate.finish_index('idx_sites_current_stage', 'sites', '(current_stage)');

CALL pipestate.finish_index('idx_sites_updated_at', 'sites', '(updated_at)');

CALL pipestate.finish_index('idx_sites_coordinator_enqueued', 'sites',
  '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)');

CALL pipestate.finish_index('idx_sites_contradictions', 'sites',
  $$(subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = 'completed' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)$$);

CALL pipestate.finish_index('idx_sites_legacy_times', 'sites', $$(substr(GREATEST(replace(last_updated::text COLLATE "C", ' ', 'T'),
  replace(last_deployed::text COLLATE "C", ' ', 'T'), replace(last_extracted::text COLLATE "C", ' ', 'T')), 1, 40))$$,
  the_needs => ARRAY['last_updated', 'last_deployed', 'last_extracted'], the_types => ARRAY['text', 'varchar']);

CALL pipestate.finish_index('idx_sites_without_stage', 'sites', '(subdomain) WHERE ((current_stage IS NULL) AND (status IS NOT NULL))',
  the_needs => ARRAY['status'], the_types => ARRAY['text', 'varchar']);

CALL pipestate.finish_index('idx_site_progress_ocr', 'site_progress', $$(subdomain) WHERE (current_stage = 'ocr')$$,
  the_needs => ARRAY['subdomain', 'current_stage']);

CALL pipestate.finish_index('idx_site_progress_touched', 'site_progress', '(GREATEST(updated_at, started_at))',
  the_needs => ARRAY['updated_at', 'started_at'], the_types => ARRAY['timestamptz']);

SELECT set_config('pipestate.part', '0003/5', false);

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

SELECT 'ANALYZE sites' WHERE to_regclass('sites') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

SELECT 'ANALYZE site_progress' WHERE to_regclass('site_progress') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

BEGIN;

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

CALL pipestate.require_part('0003/5');

-- lock sites where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['sites'], the_mode => 'SHARE ROW EXCLUSIVE');

CALL pipestate.bring_back_table('pipeline_job', '0003');

CALL pipestate.create_table('pipeline_job', $$CREATE TABLE pipeline_job (
  subdomain VARCHAR NOT NULL,
  stage VARCHAR NOT NULL,
  job_key VARCHAR NOT NULL,
  finished_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_pipeline_job PRIMARY KEY (subdomain, stage, job_key),
  CONSTRAINT fk_pipeline_job_site FOREIGN KEY(subdomain) REFERENCES sites (subdomain) ON DELETE CASCADE
)$$, the_revision => '0003');

CALL pipestate.bring_back_table('pipeline_claim', '0003');

CALL pipestate.create_table('pipeline_claim', $$CREATE TABLE pipeline_claim (
  subdomain VARCHAR NOT NULL,
  stage VARCHAR NOT NULL,
  claimed_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  attempts INTEGER DEFAULT 0 NOT NULL,
  CONSTRAINT pk_pipeline_claim PRIMARY KEY (subdomain),
  CONSTRAINT fk_pipeline_claim_site FOREIGN KEY(subdomain) REFERENCES sites (subdomain) ON DELETE CASCADE
)$$, the_revision => '0003');

CALL pipestate.bring_back_table('pipeline_reconciliation', '0003');

CALL pipestate.create_table('pipeline_reconciliation', $$CREATE TABLE pipeline_reconciliation (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  started_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  finished_at TIMESTAMP WITH TIME ZONE,
  triggered_by VARCHAR(20) NOT NULL,
  actor VARCHAR NOT NULL,
  revision VARCHAR(32),
  found INTEGER DEFAULT 0 NOT NULL,
  recovered INTEGER DEFAULT 0 NOT NULL,
  skipped INTEGER DEFAULT 0 NOT NULL,
  failed INTEGER DEFAULT 0 NOT NULL,
  details JSONB,
  CONSTRAINT pk_pipeline_reconciliation PRIMARY KEY (id),
  CONSTRAINT ck_pipeline_reconciliation_triggered_by CHECK (triggered_by IN ('cron', 'manual'))
)$$, the_revision => '0003', the_indexes => $${
  "idx_pipeline_reconciliation_started_at": "CREATE INDEX idx_pipeline_reconciliation_started_at ON pipeline_reconciliation (started_at)"}$$);

COMMENT ON COLUMN sites.current_stage IS 'fetch, ocr, compilation, extraction, deploy or completed';

COMMENT ON COLUMN sites.coordinator_enqueued IS 'Claimed by the job that finishes a stage, so that only one coordinator starts';

CALL pipestate.end_revision('0003', 'upgrade', 'refuse', NULL, '', false);

CALL pipestate.record_revision('upgrade', '0003', 'Expand: pipeline state and atomic counters on `sites`.', '08e1746688b2d3be9c85f37ca51562656a7a1a7a5efc26d6a72c5faee26b8e1d', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0003' WHERE pipestate_alembic_version.version_num = '0002';

COMMIT;

DO $record$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0003', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

