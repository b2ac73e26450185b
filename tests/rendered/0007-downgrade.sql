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
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running downgrade 0007 -> 0006

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0007' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0007, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  known boolean;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    SELECT definition ? 'absent' OR to_regclass('pipestate_archive.sites_columns') IS NOT NULL INTO known FROM pipestate_archive.manifest
    WHERE kind = 'columns' AND name = 'sites';
  END IF;
  IF known IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the archive of the legacy columns of sites is gone (purged?), so this downgrade cannot bring it back. To go on and have it empty, or derived from the new columns: alembic -x force=''reason'' downgrade ...');
  END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (true) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (true) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)$ddl$;
END IF;
END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
DECLARE
  todo text;
  old_comment text;
BEGIN
  IF NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(format('ADD COLUMN IF NOT EXISTS %I %s', c ->> 'name', c ->> 'type'), ', ' ORDER BY n)
    || coalesce(', ' || string_agg(format('ALTER COLUMN %I SET DEFAULT %s', c ->> 'name', c ->> 'default'), ', ')
                FILTER (WHERE c ->> 'default' IS NOT NULL), ''), min(definition ->> 'comment')
  INTO todo, old_comment
  FROM pipestate_archive.manifest, jsonb_array_elements(definition -> 'columns') WITH ORDINALITY AS x (c, n)
  WHERE kind = 'columns' AND name = 'sites';
  EXECUTE 'ALTER TABLE sites ' || todo;
  EXECUTE format('COMMENT ON TABLE sites IS %L', old_comment);
END $pipestate$;

SELECT set_config('pipestate.part', '0007/1', false);

COMMIT;

DO $pipestate$
DECLARE
  work text;
  loud text;
  below sites.subdomain%TYPE;
  upto sites.subdomain%TYPE;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  IF NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  work := (SELECT format('UPDATE sites SET %s FROM (SELECT s.subdomain AS k, %s FROM sites s LEFT JOIN pipestate_archive.sites_columns o USING (subdomain) CROSS JOIN LATERAL (SELECT %s) a WHERE {range s}) v WHERE v.k = sites.subdomain AND {range} AND %s', (SELECT string_agg(format('%1$I = v.%1$I', attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND NOT attisdropped AND attname IN ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted') AND attname IN (SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('pipestate_archive.sites_columns'))), (SELECT string_agg(format('CASE WHEN %s THEN coalesce(%s, o.%I) ELSE o.%I END AS %I', 'a.subdomain IS NULL OR s.updated_at > (SELECT archived_at FROM pipestate_archive.manifest WHERE kind = ''columns'' AND name = ''sites'')', format(CASE WHEN (SELECT typtype = 'e' FROM pg_type WHERE oid = attribute.atttypid) THEN '(SELECT e.enumlabel::text::%1$s FROM pg_enum e WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)' ELSE '(%3$s)::%1$s' END, format_type(attribute.atttypid, NULL), attribute.atttypid::oid, x.expression), name, name, name), ', ') FROM (VALUES ('status', 'CASE WHEN (s.current_stage = ''completed'' AND (lower(s.last_error_message) LIKE ''%no documents%''
  OR lower(s.last_error_message) LIKE ''%no pdfs found%'')) THEN ''no_documents''
  WHEN s.current_stage = ''ocr'' THEN ''needs_ocr''
  WHEN s.current_stage IN (''compilation'', ''extraction'') THEN ''needs_extraction''
  WHEN s.current_stage = ''deploy'' THEN ''needs_deploy''
  WHEN s.current_stage = ''completed'' THEN ''deployed''
  ELSE a.status END'), ('extraction_status', 'CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total AND s.extraction_completed = 0 THEN ''failed''
  WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN ''completed''
  ELSE coalesce(a.extraction_status, ''pending'') END'), ('last_updated', 'coalesce(to_char(s.updated_at AT TIME ZONE ''UTC'', ''YYYY-MM-DD"T"HH24:MI:SS''), a.last_updated)'), ('last_deployed', 'CASE WHEN s.current_stage = ''completed'' AND NOT coalesce((s.current_stage = ''completed'' AND (lower(s.last_error_message) LIKE ''%no documents%''
  OR lower(s.last_error_message) LIKE ''%no pdfs found%'')), false)
  THEN to_char(s.updated_at AT TIME ZONE ''UTC'', ''YYYY-MM-DD"T"HH24:MI:SS'') ELSE a.last_deployed END'), ('last_extracted', 'CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN to_char(s.updated_at AT TIME ZONE ''UTC'', ''YYYY-MM-DD"T"HH24:MI:SS'') ELSE a.last_extracted END')) AS x (name, expression) JOIN pg_attribute attribute ON attrelid = to_regclass('pipestate_archive.sites_columns') AND attname = x.name), (SELECT string_agg(format('o.%1$I::text AS %1$I', attname), ', ') FROM pg_attribute WHERE attrelid = to_regclass('pipestate_archive.sites_columns') AND attnum > 0), (SELECT string_agg(format('(%1$s.%2$I IS NULL OR %1$s.%2$I = %3$s)', 'sites', attname, coalesce(pg_get_expr(adbin, adrelid), 'NULL')), ' AND ') FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = to_regclass('sites') AND attname IN ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted') AND attname IN (SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('pipestate_archive.sites_columns')))));
  EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain IS NOT NULL ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto;
  LOOP
    EXIT WHEN upto IS NULL;
    BEGIN
      PERFORM set_config('session_replication_role', 'replica', true);
    EXCEPTION WHEN insufficient_privilege THEN
      SELECT string_agg(tgname, ', ') INTO loud FROM pg_trigger WHERE below IS NULL
        AND tgrelid = to_regclass('sites') AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 > 0;
      IF loud IS NOT NULL THEN
        RAISE WARNING 'triggers of sites fire for every row that is brought back: %; if one sets the time of the '
          'last change, unchanged rows will look changed. A superuser can do it without them', loud;
      END IF;
    END;
    EXECUTE replace(replace(work, '{range}', CASE WHEN below IS NULL THEN '($1 IS NULL AND sites.subdomain <= $2)' ELSE '(sites.subdomain > $1 AND sites.subdomain <= $2)' END), '{range s}', CASE WHEN below IS NULL THEN '($1 IS NULL AND s.subdomain <= $2)' ELSE '(s.subdomain > $1 AND s.subdomain <= $2)' END)
      USING below, upto;
    COMMIT;
    below := upto;
    EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain > $1 ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto USING below;
  END LOOP;
END $pipestate$;

SELECT 'DROP INDEX CONCURRENTLY ' || key FROM jsonb_each_text((SELECT definition -> 'indexes' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(key) AND NOT indisvalid) AND to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0007/1' \gexec

SELECT regexp_replace(value, '^CREATE (UNIQUE )?INDEX ', 'CREATE \1INDEX CONCURRENTLY ') FROM jsonb_each_text((SELECT definition -> 'indexes' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) WHERE to_regclass(key) IS NULL AND to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0007/1' \gexec

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) OR NOT EXISTS (SELECT FROM jsonb_object_keys((SELECT definition -> 'indexes' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) AS k LEFT JOIN pg_index ON indexrelid = to_regclass(k) WHERE indisvalid IS NOT TRUE));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
DECLARE
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.sites_columns') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  FOR rule IN SELECT key, value FROM jsonb_each_text((SELECT definition -> 'constraints' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) LOOP
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = rule.key) THEN
      BEGIN
        EXECUTE format('ALTER TABLE sites ADD CONSTRAINT %I %s', rule.key, rule.value);
      EXCEPTION WHEN integrity_constraint_violation THEN
        RAISE WARNING 'constraint % of sites did not come back: rows written since break it', rule.key;
      END;
    END IF;
  END LOOP;
  FOR rule IN SELECT c ->> 'name' AS name, c ->> 'not_null' AS required, c ->> 'comment' AS comment
      FROM jsonb_array_elements((SELECT definition -> 'columns' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) AS x (c) LOOP
    IF rule.required::boolean THEN
      BEGIN
        EXECUTE format('ALTER TABLE sites ALTER COLUMN %I SET NOT NULL', rule.name);
      EXCEPTION WHEN not_null_violation THEN
        RAISE WARNING 'sites.% stays nullable: rows written since have no value for it', rule.name;
      END;
    END IF;
    IF rule.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON COLUMN sites.%I IS %L', rule.name, rule.comment);
    END IF;
  END LOOP;
  FOR rule IN SELECT value FROM jsonb_array_elements_text((SELECT definition -> 'grants' FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites')) LOOP
    BEGIN
      EXECUTE rule.value;
    EXCEPTION WHEN undefined_object THEN
      RAISE WARNING 'not granted again, the role is gone: %', rule.value;
    END;
  END LOOP;
  DROP TABLE pipestate_archive.sites_columns;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites';
END $pipestate$;

DO $pipestate$
BEGIN
IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
  EXECUTE $ddl$DELETE FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites'$ddl$;
END IF;
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0007';

COMMIT;

