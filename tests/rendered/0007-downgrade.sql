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

-- Running downgrade 0007 -> 0006

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0007'), ('0007'); END $open$;

CALL pipestate.begin_revision('0007');

CALL pipestate.require_start('pipestate_alembic_version', '0007');

CALL pipestate.restore_comment('sites', 'Sites and the one account of their pipeline state: current_stage, counters, last error', '0007');

CALL pipestate.require_session('0007', pg_catalog.current_schemas(false), NULL);

CALL pipestate.require_restorable('0007', 'columns', 'sites', current_schemas(false)::text[], NULL, current_user, ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[], 'updated_at');

CALL pipestate.lift_timeout();

-- lock them where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables('{}', the_mode => 'SHARE ROW EXCLUSIVE',
  the_query => $$SELECT pipestate.restored_with('0007', 'columns', 'sites', current_schemas(false)::text[], 'hidden')$$);

CALL pipestate.begin_restore('0007', 'sites', current_schemas(false)::text[], jsonb_build_object('status', $sql$CASE WHEN (s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')) THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE CAST(a.status AS text) END$sql$,
  'extraction_status', $sql$CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total AND s.extraction_completed = 0 THEN 'failed'
  WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN 'completed'
  ELSE coalesce(CAST(a.extraction_status AS text), 'pending') END$sql$,
  'last_updated', $sql$coalesce(to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), CAST(a.last_updated AS text))$sql$,
  'last_deployed', $sql$CASE WHEN s.current_stage = 'completed' AND NOT coalesce((s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')), false) THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE CAST(a.last_deployed AS text) END$sql$,
  'last_extracted', $sql$CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE CAST(a.last_extracted AS text) END$sql$), 'updated_at', current_setting('search_path'), True);

SELECT set_config('pipestate.part', '0007/1', false);

CALL pipestate.end_revision('0007', 'downgrade', 'refuse', NULL, '', true);

COMMIT;

-- sites: rows that were written since
DO $pipestate$
BEGIN
CALL pipestate.require_part('0007/1');
CALL pipestate.fill(True);
END $pipestate$;

SELECT pipestate.indexes_to_build('0007', 'sites', current_schemas(false)::text[]) WHERE true
  AND current_setting('pipestate.part', true) = '0007/1' \gexec

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0007'), ('0007'); END $open$;

CALL pipestate.begin_revision('0007');

CALL pipestate.require_part('0007/1');

-- lock them where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables('{}',
  the_query => $$SELECT pipestate.restored_with('0007', 'columns', 'sites', current_schemas(false)::text[], 'hidden')$$);

CALL pipestate.restore_columns('0007', 'sites', current_schemas(false)::text[]);

SELECT set_config('pipestate.part', '0007/2', false);

CALL pipestate.end_revision('0007', 'downgrade', 'refuse', NULL, '', true);

COMMIT;

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: constraints that were valid
DO $pipestate$
BEGIN
CALL pipestate.require_part('0007/2');
CALL pipestate.validate_restored('0007', 'columns', 'sites', current_schemas(false)::text[]);
END $pipestate$;

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0007'), ('0007'); END $open$;

CALL pipestate.begin_revision('0007');

CALL pipestate.require_part('0007/2');

-- lock them where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables('{}',
  the_query => $$SELECT pipestate.restored_with('0007', 'columns', 'sites', current_schemas(false)::text[], 'validating')$$);

CALL pipestate.end_restore('0007', 'columns', 'sites', current_schemas(false)::text[]);

CALL pipestate.set_timeout_back();

CALL pipestate.end_revision('0007', 'downgrade', 'refuse', NULL, '', true);

CALL pipestate.record_revision('downgrade', '0007', 'Contract: drop the five legacy columns of `sites`.', 'b4a951723cc5996a4e4090eb2d29b19b27a7926ed15405798731b5ca83a41d89', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0007';

COMMIT;

DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0006', 'a person');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

