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

-- Running downgrade 0006 -> 0005

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0006' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0006, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
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
  IF NOT (EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('sites') AND tgname = 'pipestate_keep_inserted')) THEN RETURN; END IF;
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
BEGIN
IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('sites') AND tgname = 'pipestate_keep_inserted') THEN
  EXECUTE $ddl$DROP TRIGGER IF EXISTS pipestate_keep_inserted ON sites$ddl$;
  EXECUTE $ddl$DROP TRIGGER IF EXISTS pipestate_keep_updated ON sites$ddl$;
  EXECUTE $ddl$DROP FUNCTION IF EXISTS pipestate_archive.keep_sites_columns()$ddl$;
  EXECUTE $ddl$DROP TABLE IF EXISTS pipestate_archive.sites_columns$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  known boolean;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    SELECT definition ? 'absent' OR coalesce(to_regclass('pipestate_archive.site_progress'), to_regclass('site_progress')) IS NOT NULL INTO known FROM pipestate_archive.manifest
    WHERE kind = 'table' AND name = 'site_progress';
  END IF;
  IF known IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the archive of site_progress is gone (purged?), so this downgrade cannot bring it back. To go on and have it empty, or derived from the new columns: alembic -x force=''reason'' downgrade ...');
  END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0006/1', false);

COMMIT;

DO $pipestate$
DECLARE
  work text;
  loud text;
  below sites.subdomain%TYPE;
  upto sites.subdomain%TYPE;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL) THEN RETURN; END IF;
  work := (SELECT replace('UPDATE pipestate_archive.site_progress SET %s FROM sites s WHERE {range s} AND s.current_stage IS NOT NULL AND s.subdomain = pipestate_archive.site_progress.subdomain AND s.updated_at > (SELECT archived_at FROM pipestate_archive.manifest WHERE kind = ''table'' AND name = ''site_progress'')', '%s', string_agg(format('%1$I = coalesce(%2$s, pipestate_archive.site_progress.%1$I)', name, format(CASE WHEN (SELECT typtype = 'e' FROM pg_type WHERE oid = attribute.atttypid) THEN '(SELECT e.enumlabel::text::%1$s FROM pg_enum e WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)' ELSE '(%3$s)::%1$s' END, format_type(attribute.atttypid, NULL), attribute.atttypid::oid, x.expression)), ', ' ORDER BY n)) FROM (VALUES (0, 'current_stage', 's.current_stage'), (1, 'stage_total', 'CASE s.current_stage WHEN ''fetch'' THEN s.fetch_total WHEN ''ocr'' THEN s.ocr_total
  WHEN ''compilation'' THEN s.compilation_total WHEN ''extraction'' THEN s.extraction_total
  WHEN ''deploy'' THEN s.deploy_total ELSE 1 END'), (2, 'stage_completed', 'CASE s.current_stage WHEN ''fetch'' THEN s.fetch_completed WHEN ''ocr'' THEN s.ocr_completed
  WHEN ''compilation'' THEN s.compilation_completed WHEN ''extraction'' THEN s.extraction_completed
  WHEN ''deploy'' THEN s.deploy_completed ELSE 1 END'), (3, 'started_at', 's.started_at'), (4, 'updated_at', 's.updated_at')) AS x (n, name, expression) JOIN pg_attribute attribute ON attrelid = to_regclass('pipestate_archive.site_progress') AND attname = x.name);
  EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain IS NOT NULL ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto;
  LOOP
    EXIT WHEN upto IS NULL;
    EXECUTE replace(replace(work, '{range}', CASE WHEN below IS NULL THEN '($1 IS NULL AND sites.subdomain <= $2)' ELSE '(sites.subdomain > $1 AND sites.subdomain <= $2)' END), '{range s}', CASE WHEN below IS NULL THEN '($1 IS NULL AND s.subdomain <= $2)' ELSE '(s.subdomain > $1 AND s.subdomain <= $2)' END)
      USING below, upto;
    COMMIT;
    below := upto;
    EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain > $1 ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto USING below;
  END LOOP;
END $pipestate$;

DO $pipestate$
DECLARE
  work text;
  loud text;
  below sites.subdomain%TYPE;
  upto sites.subdomain%TYPE;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('pipestate_archive.site_progress') AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attidentity = '' AND attname NOT IN ('subdomain', 'current_stage', 'stage_total', 'stage_completed', 'started_at', 'updated_at'))) THEN RETURN; END IF;
  work := (SELECT replace('INSERT INTO pipestate_archive.site_progress (subdomain, current_stage, stage_total, stage_completed, started_at, updated_at) SELECT s.subdomain, %s FROM sites s WHERE {range s} AND s.current_stage IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pipestate_archive.site_progress WHERE s.subdomain = pipestate_archive.site_progress.subdomain) ON CONFLICT DO NOTHING', '%s', string_agg(format(CASE WHEN (SELECT typtype = 'e' FROM pg_type WHERE oid = attribute.atttypid) THEN '(SELECT e.enumlabel::text::%1$s FROM pg_enum e WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)' ELSE '(%3$s)::%1$s' END, format_type(attribute.atttypid, NULL), attribute.atttypid::oid, x.expression), ', ' ORDER BY n)) FROM (VALUES (0, 'current_stage', 's.current_stage'), (1, 'stage_total', 'CASE s.current_stage WHEN ''fetch'' THEN s.fetch_total WHEN ''ocr'' THEN s.ocr_total
  WHEN ''compilation'' THEN s.compilation_total WHEN ''extraction'' THEN s.extraction_total
  WHEN ''deploy'' THEN s.deploy_total ELSE 1 END'), (2, 'stage_completed', 'CASE s.current_stage WHEN ''fetch'' THEN s.fetch_completed WHEN ''ocr'' THEN s.ocr_completed
  WHEN ''compilation'' THEN s.compilation_completed WHEN ''extraction'' THEN s.extraction_completed
  WHEN ''deploy'' THEN s.deploy_completed ELSE 1 END'), (3, 'started_at', 's.started_at'), (4, 'updated_at', 's.updated_at')) AS x (n, name, expression) JOIN pg_attribute attribute ON attrelid = to_regclass('pipestate_archive.site_progress') AND attname = x.name);
  EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain IS NOT NULL ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto;
  LOOP
    EXIT WHEN upto IS NULL;
    EXECUTE replace(replace(work, '{range}', CASE WHEN below IS NULL THEN '($1 IS NULL AND sites.subdomain <= $2)' ELSE '(sites.subdomain > $1 AND sites.subdomain <= $2)' END), '{range s}', CASE WHEN below IS NULL THEN '($1 IS NULL AND s.subdomain <= $2)' ELSE '(s.subdomain > $1 AND s.subdomain <= $2)' END)
      USING below, upto;
    COMMIT;
    below := upto;
    EXECUTE 'SELECT k FROM (SELECT subdomain AS k FROM sites WHERE subdomain > $1 ORDER BY subdomain LIMIT 2000) b ORDER BY k DESC LIMIT 1' INTO upto USING below;
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  IF to_regclass('pipestate_archive.site_progress') IS NOT NULL AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('pipestate_archive.site_progress') AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attidentity = '' AND attname NOT IN ('subdomain', 'current_stage', 'stage_total', 'stage_completed', 'started_at', 'updated_at')) THEN
    RAISE WARNING 'sites that came since have no row in site_progress: it has columns that cannot be derived';
  END IF;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('pipestate_archive.site_progress') IS NOT NULL AND to_regclass('site_progress') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('site_progress exists again, so the archived one cannot come back: rename or drop it, then run the same again');
END IF;
END $pipestate$;

-- lock pipestate_archive.site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL AND to_regclass('site_progress') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.site_progress') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.site_progress') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress') AS wanted (t));
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
  home text;
  keys jsonb;
  ours boolean;
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL AND to_regclass('site_progress') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress';
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %I', 'site_progress', home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, 'site_progress', rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  
  IF ours THEN EXECUTE 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''site_progress'', ''0006'') ON CONFLICT DO NOTHING'; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0006/2', false);

COMMIT;

DO $pipestate$
DECLARE
  rule name;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  FOR rule IN SELECT conname FROM pg_constraint
      WHERE conrelid = to_regclass('site_progress') AND contype = 'f' AND NOT convalidated LOOP
    BEGIN
      EXECUTE format('ALTER TABLE site_progress VALIDATE CONSTRAINT %I', rule);
    EXCEPTION WHEN foreign_key_violation THEN
      RAISE WARNING '% of site_progress stays NOT VALID: some of its rows point at rows that are gone', rule;
    END;
  END LOOP;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

DO $pipestate$
BEGIN
IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
  EXECUTE $ddl$DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress'$ddl$;
END IF;
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0005' WHERE pipestate_alembic_version.version_num = '0006';

COMMIT;

