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
  INSERT INTO pg_temp.pipestate_open VALUES ('0007'), ('0007'); END $open$;

CALL pipestate.begin_revision('0007');

CALL pipestate.require_start('pipestate_alembic_version', '0007');

CALL pipestate.restore_comment('sites', 'Sites and the one account of their pipeline state: current_stage, counters, last error', '0007');

CALL pipestate.require_session('0007', pg_catalog.current_schemas(false), $$sites
CASE WHEN (s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')) THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE CAST(a.status AS text) END
CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total AND s.extraction_completed = 0 THEN 'failed'
  WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN 'completed'
  ELSE coalesce(CAST(a.extraction_status AS text), 'pending') END
coalesce(to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), CAST(a.last_updated AS text))
CASE WHEN s.current_stage = 'completed' AND NOT coalesce((s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')), false) THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE CAST(a.last_deployed AS text) END
CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE CAST(a.last_extracted AS text) END$$, NULL);

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
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0006', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

