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

-- Running upgrade 0004 -> 0005

\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

-- The ledger belongs to trusted roles, and has the functions of this script: SELECT pg_get_functiondef(...) shows one
DO $pipestate$
DECLARE
  ledger record;
BEGIN
  SELECT pg_catalog.max(pg_catalog.concat(o.what, ' belongs to ', pg_catalog.pg_get_userbyid(o.owner))) FILTER (WHERE NOT (
      o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND (pg_catalog.pg_has_role(o.owner, 'USAGE'::text) OR pg_catalog.pg_has_role(o.owner,
        CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))))) AS stranger,
      pg_catalog.bool_or(o.what = 'pipestate.run'::text) AS is_there,
      pg_catalog.bool_and(o.may_use) FILTER (WHERE n.nspname = 'pipestate') AS may_use,
      pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
        pg_catalog.string_agg(o.facts, E'\n' ORDER BY o.facts COLLATE "C"), 'UTF8')), 'hex') AS functions INTO ledger
    FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL (
      SELECT n.nspowner, pg_catalog.concat('the schema ', n.nspname), NULL::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
      UNION ALL SELECT c.relowner, pg_catalog.concat(n.nspname, '.', c.relname), NULL, c.relname NOT IN ('run', 'result')
          OR (pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT'))
        FROM pg_catalog.pg_class c
        WHERE c.relnamespace = n.oid AND n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      UNION ALL SELECT p.proowner, pg_catalog.concat(n.nspname, '.', p.proname, '()'),
        CASE WHEN n.nspname = 'pipestate' THEN pg_catalog.concat_ws(' ', p.prokind, p.proname, pg_catalog.regexp_replace(
            CASE pg_catalog.set_config('quote_all_identifiers', 'off', true) WHEN 'off' THEN pg_catalog.concat_ws(' RETURNS ',
              pg_catalog.concat('(', pg_catalog.pg_get_function_arguments(p.oid), ')'), pg_catalog.pg_get_function_result(p.oid)) END,
            '(^[(]|, )IN |( |::)(pg_catalog|pipestate)[.]', E'\\1\\2', 'g'),
          (SELECT l.lanname FROM pg_catalog.pg_language l WHERE l.oid = p.prolang), p.provolatile, p.proisstrict, p.prosecdef,
          p.proconfig::text, (SELECT pg_catalog.count(*) FROM pg_catalog.pg_depend d WHERE d.classid = '1255' AND d.objid = p.oid
            AND d.refclassid NOT IN ('2615', '2612') AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE d.refclassid = '1247'
              AND t.oid = d.refobjid AND t.typname = 'soft_drop' AND t.typnamespace = p.pronamespace)),
          pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p.prosrc, 'UTF8')), 'hex')) END,
        pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
        FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid) AS o (owner, what, facts, may_use)
    WHERE n.nspname IN ('pipestate', 'pipestate_archive');
  IF ledger.stranger IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', ledger.stranger, current_user);
  ELSIF ledger.is_there IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'this database has no ledger: run `pipestate ledger install`, or a revision that calls install_ledger()';
  ELSIF NOT ledger.may_use THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.replace('this role may not use the ledger, which gates and scripts need. As its owner: GRANT USAGE ON SCHEMA pipestate TO {role}; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA pipestate TO {role}; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA pipestate TO {role}', '{role}', pg_catalog.quote_ident(current_user::text));
  ELSIF ledger.functions IS DISTINCT FROM 'ac05b65be3371f753c6000d533d6f57b3d8bdca297666c930e621890465d910d' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'the functions of the ledger are not those that this script was written for (version 1): update them with pipestate ledger install, or write the script again';
  END IF;
  PERFORM pg_catalog.set_config('pipestate.compared', 'yes', false);
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

CALL pipestate.require_start('pipestate_alembic_version', '0004');

CALL pipestate.require_shape('job_results', 'id', ARRAY['id', 'job_id', 'directory_name', 'status', 'created_at']);

CALL pipestate.require_shape('worker_heartbeats', 'worker_id', ARRAY['worker_id', 'queue_name', 'status', 'current_job_id', 'last_heartbeat']);

CALL pipestate.require_shape('queue_history', 'id', ARRAY['id', 'job_id', 'event', 'created_at']);

CALL pipestate.bring_back_table('jobs', '0005');

CALL pipestate.create_table('jobs', $$CREATE TABLE jobs (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  customer_id VARCHAR,
  package_size INTEGER,
  status VARCHAR DEFAULT 'pending' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_jobs PRIMARY KEY (id)
)$$, the_revision => '0005');

-- lock jobs where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['jobs'], the_mode => 'SHARE ROW EXCLUSIVE');

CALL pipestate.bring_back_table('job_results', '0005');

CALL pipestate.create_table('job_results', $$CREATE TABLE job_results (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  job_id {type of jobs.id} NOT NULL,
  directory_name VARCHAR NOT NULL,
  status VARCHAR(20) NOT NULL,
  idempotency_key VARCHAR NOT NULL,
  payload JSONB,
  response_log JSONB,
  listing_url TEXT,
  error_message TEXT,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_job_results PRIMARY KEY (id),
  CONSTRAINT fk_job_results_job FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
  CONSTRAINT ck_job_results_status CHECK (status IN ('submitting', 'submitted', 'failed', 'skipped'))
)$$, the_revision => '0005', the_indexes => $${
  "uix_job_results_idempotency_key": "CREATE UNIQUE INDEX uix_job_results_idempotency_key ON job_results (idempotency_key)",
  "idx_job_results_job_created": "CREATE INDEX idx_job_results_job_created ON job_results (job_id, created_at DESC)",
  "idx_job_results_status_created": "CREATE INDEX idx_job_results_status_created ON job_results (status, created_at DESC)"}$$);

CALL pipestate.bring_back_table('worker_heartbeats', '0005');

CALL pipestate.create_table('worker_heartbeats', $$CREATE TABLE worker_heartbeats (
  worker_id VARCHAR NOT NULL,
  queue_name VARCHAR NOT NULL,
  status VARCHAR(20) NOT NULL,
  current_job_id {type of jobs.id},
  queue_depth INTEGER DEFAULT 0 NOT NULL,
  processing_count INTEGER DEFAULT 0 NOT NULL,
  last_heartbeat TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  metadata JSONB,
  CONSTRAINT pk_worker_heartbeats PRIMARY KEY (worker_id),
  CONSTRAINT fk_worker_heartbeats_job FOREIGN KEY(current_job_id) REFERENCES jobs (id) ON DELETE SET NULL,
  CONSTRAINT ck_worker_heartbeats_status CHECK (status IN ('starting', 'idle', 'running', 'paused', 'error'))
)$$, the_revision => '0005');

CALL pipestate.bring_back_table('queue_history', '0005');

CALL pipestate.create_table('queue_history', $$CREATE TABLE queue_history (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  job_id {type of jobs.id},
  directory_name VARCHAR,
  event VARCHAR(50) NOT NULL,
  details JSONB,
  worker_id VARCHAR,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_queue_history PRIMARY KEY (id)
)$$, the_revision => '0005', the_indexes => $${
  "idx_queue_history_job_id": "CREATE INDEX idx_queue_history_job_id ON queue_history (job_id)",
  "idx_queue_history_event": "CREATE INDEX idx_queue_history_event ON queue_history (event)",
  "idx_queue_history_created_at": "CREATE INDEX idx_queue_history_created_at ON queue_history (created_at)"}$$);

CALL pipestate.run_if($$to_regclass('stale_workers') IS NULL$$,
  ARRAY[$$CREATE VIEW stale_workers AS SELECT worker_id, queue_name, status, current_job_id, last_heartbeat,
       CAST(EXTRACT(EPOCH FROM (now() - last_heartbeat)) AS bigint) AS seconds_since
  FROM worker_heartbeats
 WHERE last_heartbeat < now() - INTERVAL '2 minutes'$$,
    $$INSERT INTO pipestate.object (kind, name, revision) VALUES ('view', 'stale_workers', '0005') ON CONFLICT DO NOTHING$$]);

CALL pipestate.run_if($$pipestate.is_ours('view', 'stale_workers')$$,
  ARRAY[$$COMMENT ON VIEW stale_workers IS 'Workers of any status that have been silent for more than two minutes; one that is gone for good leaves it when its row in worker_heartbeats is deleted'$$]);

CALL pipestate.add_columns('job_results', $${
  "idempotency_key": "VARCHAR",
  "payload": "JSONB",
  "response_log": "JSONB",
  "listing_url": "TEXT",
  "error_message": "TEXT",
  "updated_at": "TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL"}$$, the_revision => '0005');

-- lock job_results where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['job_results'],
  the_condition => $$EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = 'idempotency_key' AND NOT atthasdef AND NOT attnotnull)$$);

CALL pipestate.run_if($$EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = 'idempotency_key' AND NOT atthasdef AND NOT attnotnull)$$,
  ARRAY[$$ALTER TABLE job_results ALTER COLUMN idempotency_key SET DEFAULT 'adopted:' || gen_random_uuid()$$]);

SELECT set_config('pipestate.part', '0005/1', false);

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.update_in_batches('job_results', ARRAY['id'], 2000, $$UPDATE job_results SET
  idempotency_key = coalesce(idempotency_key, 'adopted:' || id)
WHERE {range} AND (
  idempotency_key IS NULL)$$,
  the_condition => $$pipestate.is_nullable('job_results', ARRAY['idempotency_key'])$$, the_part => '0005/1');

BEGIN;

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

CALL pipestate.require_part('0005/1');

CALL pipestate.begin_not_null('job_results', 'ck_job_results_present', ARRAY['idempotency_key']);

SELECT set_config('pipestate.part', '0005/2', false);

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('job_results', ARRAY['ck_job_results_present'], the_part => '0005/2');

BEGIN;

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

CALL pipestate.require_part('0005/2');

CALL pipestate.require_valid('job_results', ARRAY['ck_job_results_present'], false);

CALL pipestate.end_not_null('job_results', 'ck_job_results_present', ARRAY['idempotency_key']);

CALL pipestate.refuse_rows('job_results', 'job_id IS NOT NULL AND NOT EXISTS (SELECT FROM jobs p WHERE p.id = t.job_id)',
  'point at no row of jobs (job_id)', $$pipestate.lacks_foreign_key('job_results', 'job_id', 'jobs', 'c')$$);

CALL pipestate.refuse_found($$SELECT pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k WHERE k.conrelid = to_regclass('job_results') AND k.contype = 'f' AND k.conname = 'fk_job_results_job' AND (k.confrelid <> to_regclass('jobs') OR k.confdeltype <> 'c')$$,
  'foreign key fk_job_results_job on job_results exists with another definition: %s; wanted: (job_id) to jobs(id) on delete cascade. Drop it, then run the same again');

CALL pipestate.refuse_if($$pipestate.lacks_foreign_key('job_results', 'job_id', 'jobs', 'c') AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass('job_results') AND relkind = 'p')$$,
  'job_results is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');

-- lock job_results, jobs where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['job_results', 'jobs'],
  the_condition => $$pipestate.lacks_foreign_key('job_results', 'job_id', 'jobs', 'c')$$);

CALL pipestate.run_if($$pipestate.lacks_foreign_key('job_results', 'job_id', 'jobs', 'c')$$,
  ARRAY['ALTER TABLE job_results ADD CONSTRAINT fk_job_results_job FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE NOT VALID',
    $$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'job_results.fk_job_results_job', '0005') ON CONFLICT DO NOTHING$$]);

SELECT set_config('pipestate.part', '0005/3', false);

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('job_results', ARRAY['fk_job_results_job'], the_part => '0005/3');

BEGIN;

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

CALL pipestate.require_part('0005/3');

CALL pipestate.require_valid('job_results', ARRAY['fk_job_results_job'], false);

CALL pipestate.add_checks('job_results', $${
  "ck_job_results_status": "status IN ('submitting', 'submitted', 'failed', 'skipped')"}$$,
  the_revision => '0005');

SELECT set_config('pipestate.part', '0005/4', false);

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('job_results', ARRAY['ck_job_results_status'], the_part => '0005/4');

BEGIN;

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

CALL pipestate.require_part('0005/4');

CALL pipestate.require_valid('job_results', ARRAY['ck_job_results_status'], true);

CALL pipestate.prepare_index('uix_job_results_idempotency_key', 'job_results', '(idempotency_key)', is_unique => true, the_revision => '0005');

CALL pipestate.prepare_index('idx_job_results_job_created', 'job_results', '(job_id, created_at DESC)', the_revision => '0005');

CALL pipestate.prepare_index('idx_job_results_status_created', 'job_results', '(status, created_at DESC)', the_revision => '0005');

CALL pipestate.prepare_index('idx_queue_history_job_id', 'queue_history', '(job_id)', the_revision => '0005');

CALL pipestate.prepare_index('idx_queue_history_event', 'queue_history', '(event)', the_revision => '0005');

CALL pipestate.prepare_index('idx_queue_history_created_at', 'queue_history', '(created_at)', the_revision => '0005');

CALL pipestate.prepare_index('idx_jobs_created_at', 'jobs', '(created_at)', the_revision => '0005');

SELECT set_config('pipestate.part', '0005/5', false);

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

SET lock_timeout = '10min';

SELECT step FROM pipestate.index_steps('uix_job_results_idempotency_key', 'job_results', '(idempotency_key)', is_unique => true) AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_job_results_job_created', 'job_results', '(job_id, created_at DESC)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_job_results_status_created', 'job_results', '(status, created_at DESC)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_queue_history_job_id', 'queue_history', '(job_id)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_queue_history_event', 'queue_history', '(event)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_queue_history_created_at', 'queue_history', '(created_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT step FROM pipestate.index_steps('idx_jobs_created_at', 'jobs', '(created_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0005/5' \gexec

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0005'), ('0005'); END $open$;

CALL pipestate.begin_revision('0005');

CALL pipestate.require_part('0005/5');

CALL pipestate.finish_index('uix_job_results_idempotency_key', 'job_results', '(idempotency_key)', is_unique => true);

CALL pipestate.finish_index('idx_job_results_job_created', 'job_results', '(job_id, created_at DESC)');

CALL pipestate.finish_index('idx_job_results_status_created', 'job_results', '(status, created_at DESC)');

CALL pipestate.finish_index('idx_queue_history_job_id', 'queue_history', '(job_id)');

CALL pipestate.finish_index('idx_queue_history_event', 'queue_history', '(event)');

CALL pipestate.finish_index('idx_queue_history_created_at', 'queue_history', '(created_at)');

CALL pipestate.finish_index('idx_jobs_created_at', 'jobs', '(created_at)');

CALL pipestate.end_revision('0005', 'upgrade', 'refuse', NULL, '', false);

CALL pipestate.record_revision('upgrade', '0005', 'Expand: results, heartbeats and history of the new queue, and a view of silent workers.', '5cc88ac94204aeb229ef4f4a76bbc2b9368ad1a58ea726fe9f78fd58697b81ad', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0005' WHERE pipestate_alembic_version.version_num = '0004';

COMMIT;

DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0005', 'a person');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

