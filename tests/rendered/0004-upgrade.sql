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

-- Running upgrade 0003 -> 0004

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_start('pipestate_alembic_version', '0003');

CALL pipestate.require_shape('content_item_pipeline_state', 'id', ARRAY['id', 'content_item_id', 'pipeline', 'status'],
  may_be_partitioned => true, the_unique => ARRAY['content_item_id', 'pipeline']);

CALL pipestate.bring_back_table('content_items', '0004');

CALL pipestate.create_table('content_items', $$CREATE TABLE content_items (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  CONSTRAINT pk_content_items PRIMARY KEY (id)
)$$, the_revision => '0004');

-- lock content_items where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['content_items'], the_mode => 'SHARE ROW EXCLUSIVE');

CALL pipestate.bring_back_table('content_item_pipeline_state', '0004');

CALL pipestate.create_table('content_item_pipeline_state', $$CREATE TABLE content_item_pipeline_state (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  content_item_id {type of content_items.id} NOT NULL,
  pipeline VARCHAR(20) NOT NULL,
  status VARCHAR(20) NOT NULL,
  attempt_count INTEGER DEFAULT 0 NOT NULL,
  error_code VARCHAR(100),
  error_message TEXT,
  last_attempt_at TIMESTAMP WITH TIME ZONE,
  processed_at TIMESTAMP WITH TIME ZONE,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_content_item_pipeline_state PRIMARY KEY (id),
  CONSTRAINT fk_cips_content_item FOREIGN KEY(content_item_id) REFERENCES content_items (id) ON DELETE CASCADE,
  CONSTRAINT ck_cips_status CHECK (status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')),
  CONSTRAINT ck_cips_pipeline CHECK (pipeline IN ('technical', 'fundamental'))
)$$, the_revision => '0004', the_indexes => $${
  "uix_cips_content_item_pipeline": "CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)",
  "idx_cips_pipeline_status_last_attempt": "CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at)",
  "idx_cips_pipeline_status_created": "CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at)",
  "idx_cips_content_item_pipeline_status": "CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status)",
  "idx_cips_error_code": "CREATE INDEX idx_cips_error_code ON content_item_pipeline_state (error_code)",
  "idx_cips_updated_at": "CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state (updated_at)"}$$);

CALL pipestate.add_columns('content_item_pipeline_state', $${
  "attempt_count": "INTEGER DEFAULT 0 NOT NULL",
  "error_code": "VARCHAR(100)",
  "error_message": "TEXT",
  "last_attempt_at": "TIMESTAMP WITH TIME ZONE",
  "processed_at": "TIMESTAMP WITH TIME ZONE",
  "created_at": "TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP",
  "updated_at": "TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP"}$$, the_revision => '0004');

CALL pipestate.use_timestamptz('content_item_pipeline_state', ARRAY['last_attempt_at', 'processed_at', 'created_at', 'updated_at'], 'UTC',
  ARRAY['idx_cips_pipeline_status_last_attempt', 'idx_cips_pipeline_status_created', 'idx_cips_updated_at']);

CALL pipestate.refuse_rows('content_item_pipeline_state',
  'content_item_id IS NOT NULL AND NOT EXISTS (SELECT FROM content_items p WHERE p.id = t.content_item_id)',
  'point at no row of content_items (content_item_id)',
  $$pipestate.lacks_foreign_key('content_item_pipeline_state', 'content_item_id', 'content_items', 'c')$$);

CALL pipestate.refuse_found($$SELECT pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k WHERE k.conrelid = to_regclass('content_item_pipeline_state') AND k.contype = 'f' AND k.conname = 'fk_cips_content_item' AND (k.confrelid <> to_regclass('content_items') OR k.confdeltype <> 'c')$$,
  'foreign key fk_cips_content_item on content_item_pipeline_state exists with another definition: %s; wanted: (content_item_id) to content_items(id) on delete cascade. Drop it, then run the same again');

CALL pipestate.refuse_if($$pipestate.lacks_foreign_key('content_item_pipeline_state', 'content_item_id', 'content_items', 'c') AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p')$$,
  'content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');

-- lock content_item_pipeline_state, content_items where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['content_item_pipeline_state', 'content_items'],
  the_condition => $$pipestate.lacks_foreign_key('content_item_pipeline_state', 'content_item_id', 'content_items', 'c')$$);

CALL pipestate.run_if($$pipestate.lacks_foreign_key('content_item_pipeline_state', 'content_item_id', 'content_items', 'c')$$,
  ARRAY['ALTER TABLE content_item_pipeline_state ADD CONSTRAINT fk_cips_content_item FOREIGN KEY (content_item_id) REFERENCES content_items (id) ON DELETE CASCADE NOT VALID',
    $$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'content_item_pipeline_state.fk_cips_content_item', '0004') ON CONFLICT DO NOTHING$$]);

SELECT set_config('pipestate.part', '0004/1', false);

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('content_item_pipeline_state', ARRAY['fk_cips_content_item'], the_part => '0004/1');

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_part('0004/1');

CALL pipestate.require_valid('content_item_pipeline_state', ARRAY['fk_cips_content_item'], false);

CALL pipestate.add_checks('content_item_pipeline_state', $${
  "ck_cips_status": "status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')",
  "ck_cips_pipeline": "pipeline IN ('technical', 'fundamental')"}$$, the_revision => '0004');

SELECT set_config('pipestate.part', '0004/2', false);

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('content_item_pipeline_state', ARRAY['ck_cips_status', 'ck_cips_pipeline'], the_part => '0004/2');

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_part('0004/2');

CALL pipestate.require_valid('content_item_pipeline_state', ARRAY['ck_cips_status', 'ck_cips_pipeline'], true);

CALL pipestate.refuse_rows('content_item_pipeline_state', 'content_item_id IS NULL OR pipeline IS NULL OR status IS NULL',
  'have no value (content_item_id IS NULL OR pipeline IS NULL OR status IS NULL)',
  $$pipestate.is_nullable('content_item_pipeline_state', ARRAY['content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at'])$$);

SELECT set_config('pipestate.part', '0004/3', false);

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.update_in_batches('content_item_pipeline_state', ARRAY['id'], 2000, $$UPDATE content_item_pipeline_state SET
  attempt_count = coalesce(attempt_count, 0),
  created_at = coalesce(created_at, coalesce(updated_at, last_attempt_at, CURRENT_TIMESTAMP)),
  updated_at = coalesce(updated_at, coalesce(last_attempt_at, created_at, CURRENT_TIMESTAMP))
WHERE {range} AND (
  content_item_id IS NULL
  OR pipeline IS NULL
  OR status IS NULL
  OR attempt_count IS NULL
  OR created_at IS NULL
  OR updated_at IS NULL)$$,
  the_condition => $$pipestate.is_nullable('content_item_pipeline_state', ARRAY['content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at'])$$,
  the_part => '0004/3');

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_part('0004/3');

CALL pipestate.begin_not_null('content_item_pipeline_state', 'ck_content_item_pipeline_state_present',
  ARRAY['content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at']);

SELECT set_config('pipestate.part', '0004/4', false);

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

CALL pipestate.validate_constraints('content_item_pipeline_state', ARRAY['ck_content_item_pipeline_state_present'], the_part => '0004/4');

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_part('0004/4');

CALL pipestate.require_valid('content_item_pipeline_state', ARRAY['ck_content_item_pipeline_state_present'], false);

CALL pipestate.end_not_null('content_item_pipeline_state', 'ck_content_item_pipeline_state_present',
  ARRAY['content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at']);

CALL pipestate.prepare_index('uix_cips_content_item_pipeline', 'content_item_pipeline_state', '(content_item_id, pipeline)',
  is_unique => true, the_revision => '0004');

CALL pipestate.prepare_index('idx_cips_pipeline_status_last_attempt', 'content_item_pipeline_state', '(pipeline, status, last_attempt_at)',
  the_revision => '0004');

CALL pipestate.prepare_index('idx_cips_pipeline_status_created', 'content_item_pipeline_state', '(pipeline, status, created_at)',
  the_revision => '0004');

CALL pipestate.prepare_index('idx_cips_content_item_pipeline_status', 'content_item_pipeline_state', '(content_item_id, pipeline, status)',
  the_revision => '0004');

CALL pipestate.prepare_index('idx_cips_error_code', 'content_item_pipeline_state', '(error_code)', the_revision => '0004');

CALL pipestate.prepare_index('idx_cips_updated_at', 'content_item_pipeline_state', '(updated_at)', the_revision => '0004');

SELECT set_config('pipestate.part', '0004/5', false);

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

COMMIT;

SET lock_timeout = '10min';

SELECT step FROM pipestate.index_steps('uix_cips_content_item_pipeline', 'content_item_pipeline_state', '(content_item_id, pipeline)',
  is_unique => true) AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT step FROM pipestate.index_steps('idx_cips_pipeline_status_last_attempt', 'content_item_pipeline_state', '(pipeline, status, last_attempt_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT step FROM pipestate.index_steps('idx_cips_pipeline_status_created', 'content_item_pipeline_state', '(pipeline, status, created_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT step FROM pipestate.index_steps('idx_cips_content_item_pipeline_status', 'content_item_pipeline_state', '(content_item_id, pipeline, status)') AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT step FROM pipestate.index_steps('idx_cips_error_code', 'content_item_pipeline_state', '(error_code)') AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT step FROM pipestate.index_steps('idx_cips_updated_at', 'content_item_pipeline_state', '(updated_at)') AS step
  WHERE current_setting('pipestate.part', true) = '0004/5' \gexec

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0004'), ('0004'); END $open$;

CALL pipestate.begin_revision('0004');

CALL pipestate.require_part('0004/5');

CALL pipestate.finish_index('uix_cips_content_item_pipeline', 'content_item_pipeline_state', '(content_item_id, pipeline)',
  is_unique => true);

CALL pipestate.finish_index('idx_cips_pipeline_status_last_attempt', 'content_item_pipeline_state', '(pipeline, status, last_attempt_at)');

CALL pipestate.finish_index('idx_cips_pipeline_status_created', 'content_item_pipeline_state', '(pipeline, status, created_at)');

CALL pipestate.finish_index('idx_cips_content_item_pipeline_status', 'content_item_pipeline_state', '(content_item_id, pipeline, status)');

CALL pipestate.finish_index('idx_cips_error_code', 'content_item_pipeline_state', '(error_code)');

CALL pipestate.finish_index('idx_cips_updated_at', 'content_item_pipeline_state', '(updated_at)');

CALL pipestate.end_revision('0004', 'upgrade', 'refuse', NULL, '', false);

CALL pipestate.record_revision('upgrade', '0004', 'Expand: `content_item_pipeline_state`, one row for each content item and pipeline.', '689f73cfd95970db8d677c981fc2e8ef8487441cfcbfe9a10eac7102381953e8', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0004' WHERE pipestate_alembic_version.version_num = '0003';

COMMIT;

DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0004', 'a person');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

