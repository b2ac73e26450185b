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

-- Running downgrade 0005 -> 0004

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0005'), ('0005'); END $open$;

CALL pipestate.begin_revision('0005');

CALL pipestate.require_start('pipestate_alembic_version', '0005');

-- lock jobs, queue_history, worker_heartbeats, job_results where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['jobs', 'queue_history', 'worker_heartbeats', 'job_results']);

CALL pipestate.run_if($$pipestate.is_ours('view', 'stale_workers')$$, ARRAY['DROP VIEW IF EXISTS stale_workers']);

DELETE FROM pipestate.object WHERE kind = 'view' AND name = 'stale_workers';

CALL pipestate.drop_table('queue_history', 'queue_history', '0005');

CALL pipestate.drop_table('worker_heartbeats', 'worker_heartbeats', '0005');

CALL pipestate.drop_table('job_results', 'job_results', '0005');

CALL pipestate.drop_indexes(ARRAY['uix_job_results_idempotency_key', 'idx_job_results_job_created', 'idx_job_results_status_created',
    'idx_queue_history_job_id', 'idx_queue_history_event', 'idx_queue_history_created_at', 'idx_jobs_created_at']);

CALL pipestate.drop_constraint('job_results', 'ck_job_results_status');

CALL pipestate.drop_constraint('job_results', 'fk_job_results_job');

CALL pipestate.drop_columns('job_results', ARRAY['idempotency_key', 'payload', 'response_log', 'listing_url', 'error_message', 'updated_at'],
  the_revision => '0005');

CALL pipestate.end_revision('0005', 'downgrade', 'refuse', NULL, '', true);

CALL pipestate.record_revision('downgrade', '0005', 'Expand: results, heartbeats and history of the new queue, and a view of silent workers.', '5cc88ac94204aeb229ef4f4a76bbc2b9368ad1a58ea726fe9f78fd58697b81ad', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0004' WHERE pipestate_alembic_version.version_num = '0005';

COMMIT;

DO $record$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0004', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

