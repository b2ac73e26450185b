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

-- Running downgrade 0001 -> 

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0001' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0001, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t));
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
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('jobs') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM jobs)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('jobs') AND v.oid <> to_regclass('jobs') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('jobs') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('jobs cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('jobs') AND v.oid <> to_regclass('jobs') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('jobs') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean) AND to_regclass('pipestate_archive.jobs') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.jobs exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
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

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t));
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
BEGIN
  IF NOT (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('jobs')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE jobs ' || todo; END IF;
  EXECUTE 'ALTER TABLE jobs SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS jobs$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'jobs';

-- lock content_items where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t));
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
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('content_items') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM content_items)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('content_items') AND v.oid <> to_regclass('content_items') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('content_items') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('content_items cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('content_items') AND v.oid <> to_regclass('content_items') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('content_items') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean) AND to_regclass('pipestate_archive.content_items') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.content_items exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
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

-- lock content_items where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t));
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
BEGIN
  IF NOT (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('content_items')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE content_items ' || todo; END IF;
  EXECUTE 'ALTER TABLE content_items SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS content_items$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'content_items';

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
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
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('site_progress') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM site_progress)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('site_progress cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean) AND to_regclass('pipestate_archive.site_progress') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.site_progress exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
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

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
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
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('site_progress')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE site_progress ' || todo; END IF;
  EXECUTE 'ALTER TABLE site_progress SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS site_progress$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress';

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t));
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
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('sites') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM sites)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('sites') AND v.oid <> to_regclass('sites') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('sites') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('sites cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('sites') AND v.oid <> to_regclass('sites') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('sites') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean) AND to_regclass('pipestate_archive.sites') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.sites exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
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
  IF NOT (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t));
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
BEGIN
  IF NOT (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('sites')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE sites ' || todo; END IF;
  EXECUTE 'ALTER TABLE sites SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS sites$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'sites';

-- the registry of created objects
DO $pipestate$
BEGIN
  IF to_regclass('pipestate.object') IS NOT NULL THEN
    DROP TABLE pipestate.object;
  END IF;
  IF to_regnamespace('pipestate') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pipestate')) THEN
    DROP SCHEMA pipestate;
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  used boolean;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM pipestate_archive.manifest)' INTO used;
  IF NOT used THEN
    DROP TABLE pipestate_archive.manifest;
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pipestate_archive')) THEN
      DROP SCHEMA pipestate_archive;
    END IF;
  END IF;
END $pipestate$;

DELETE FROM pipestate_alembic_version WHERE pipestate_alembic_version.version_num = '0001';

COMMIT;

