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

-- Running downgrade 0006 -> 0005

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
  INSERT INTO pg_temp.pipestate_open VALUES ('0006'), ('0006'); END $open$;

CALL pipestate.begin_revision('0006');

-- The database is at revision 0006, and no other migration is running
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0006' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0006, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

SET standard_conforming_strings = on;

SET quote_all_identifiers = off;

CALL pipestate.require_session('0006', pg_catalog.current_schemas(false), NULL);

CALL pipestate.require_restorable('0006', 'table', 'site_progress', current_schemas(false)::text[], NULL, current_user, False);

CALL pipestate.lift_timeout();

CALL pipestate.begin_table_restore('0006', 'site_progress', current_schemas(false)::text[], ARRAY['subdomain']::text[], to_regclass('sites'), $sql$s.current_stage IS NOT NULL$sql$, jsonb_build_object('current_stage', $sql$s.current_stage$sql$,
  'stage_total', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_total WHEN 'ocr' THEN s.ocr_total
  WHEN 'compilation' THEN s.compilation_total WHEN 'extraction' THEN s.extraction_total
  WHEN 'deploy' THEN s.deploy_total ELSE 1 END$sql$,
  'stage_completed', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_completed WHEN 'ocr' THEN s.ocr_completed
  WHEN 'compilation' THEN s.compilation_completed WHEN 'extraction' THEN s.extraction_completed
  WHEN 'deploy' THEN s.deploy_completed ELSE 1 END$sql$,
  'started_at', $sql$s.started_at$sql$,
  'updated_at', $sql$s.updated_at$sql$), 'updated_at');

SELECT set_config('pipestate.part', '0006/1', false);

CALL pipestate.end_revision('0006', 'downgrade', 'refuse', NULL, '', true);

COMMIT;

-- site_progress: rows that were written since
DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
CALL pipestate.fill(True);
END $pipestate$;

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0006'), ('0006'); END $open$;

CALL pipestate.begin_revision('0006');

CALL pipestate.require_part('0006/1');

-- lock them where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables('{}',
  the_query => $$SELECT unnest(array_cat(ARRAY[pipestate.hidden_relation(entry)::text], ARRAY(SELECT substring(removed ->> 'definition' FROM ' REFERENCES ([^(]+)[(]') FROM jsonb_array_elements(entry.removed) AS removed WHERE removed ->> 'kind' = 'foreign key'))) FROM (SELECT * FROM pipestate.soft_dropped('0006', 'table', 'site_progress', current_schemas(false)::text[])) AS entry WHERE entry.state = 'hidden'$$);

CALL pipestate.restore_table('0006', 'site_progress', current_schemas(false)::text[]);

SELECT set_config('pipestate.part', '0006/2', false);

CALL pipestate.end_revision('0006', 'downgrade', 'refuse', NULL, '', true);

COMMIT;

-- site_progress: constraints that were valid
DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
CALL pipestate.validate_restored('0006', 'table', 'site_progress', current_schemas(false)::text[]);
END $pipestate$;

BEGIN;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0006'), ('0006'); END $open$;

CALL pipestate.begin_revision('0006');

CALL pipestate.require_part('0006/2');

CALL pipestate.end_restore('0006', 'table', 'site_progress', current_schemas(false)::text[]);

CALL pipestate.set_timeout_back();

CALL pipestate.end_revision('0006', 'downgrade', 'refuse', NULL, '', true);

CALL pipestate.record_revision('downgrade', '0006', 'Contract: drop `site_progress`.', '8edc3ab102b1704c9285c3fbcf26e4889a55d6581b8f7d290ed94774ed521eb9', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0005' WHERE pipestate_alembic_version.version_num = '0006';

COMMIT;

DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND pg_catalog.current_setting('pipestate.compared', true) = 'yes' THEN
    CALL pipestate.record_schema('0005', 'a person');
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

