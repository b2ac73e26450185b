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

-- Running downgrade 0004 -> 0003

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0004' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0004, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_item_pipeline_state')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t));
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
  IF to_regclass('content_item_pipeline_state') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_item_pipeline_state') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM content_item_pipeline_state)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('content_item_pipeline_state') AND v.oid <> to_regclass('content_item_pipeline_state') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('content_item_pipeline_state') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('content_item_pipeline_state cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('content_item_pipeline_state') AND v.oid <> to_regclass('content_item_pipeline_state') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('content_item_pipeline_state') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean) AND to_regclass('pipestate_archive.content_item_pipeline_state') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.content_item_pipeline_state exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
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

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t));
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
  IF NOT (to_regclass('content_item_pipeline_state') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_item_pipeline_state'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE content_item_pipeline_state ' || todo; END IF;
  EXECUTE 'ALTER TABLE content_item_pipeline_state SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_item_pipeline_state') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS content_item_pipeline_state$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'content_item_pipeline_state';

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t));
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
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.ck_cips_status') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state DROP CONSTRAINT IF EXISTS ck_cips_status$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.ck_cips_status';

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t));
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
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.ck_cips_pipeline') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state DROP CONSTRAINT IF EXISTS ck_cips_pipeline$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.ck_cips_pipeline';

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f') AS wanted (t));
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
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.fk_cips_content_item') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state DROP CONSTRAINT IF EXISTS fk_cips_content_item$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'constraint' AND name = 'content_item_pipeline_state.fk_cips_content_item';

SELECT set_config('pipestate.part', '0004/1', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS uix_cips_content_item_pipeline' WHERE to_regclass('uix_cips_content_item_pipeline') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'uix_cips_content_item_pipeline')
  AND current_setting('pipestate.part', true) = '0004/1' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'uix_cips_content_item_pipeline';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0004/2', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_cips_pipeline_status_last_attempt' WHERE to_regclass('idx_cips_pipeline_status_last_attempt') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_pipeline_status_last_attempt')
  AND current_setting('pipestate.part', true) = '0004/2' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_pipeline_status_last_attempt';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0004/3', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_cips_pipeline_status_created' WHERE to_regclass('idx_cips_pipeline_status_created') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_pipeline_status_created')
  AND current_setting('pipestate.part', true) = '0004/3' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_pipeline_status_created';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0004/4', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_cips_content_item_pipeline_status' WHERE to_regclass('idx_cips_content_item_pipeline_status') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_content_item_pipeline_status')
  AND current_setting('pipestate.part', true) = '0004/4' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_content_item_pipeline_status';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0004/5', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_cips_error_code' WHERE to_regclass('idx_cips_error_code') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_error_code')
  AND current_setting('pipestate.part', true) = '0004/5' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_error_code';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/5' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0004/6', false);

COMMIT;

SELECT 'DROP INDEX CONCURRENTLY IF EXISTS idx_cips_updated_at' WHERE to_regclass('idx_cips_updated_at') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_updated_at')
  AND current_setting('pipestate.part', true) = '0004/6' \gexec

DELETE FROM pipestate.object WHERE kind = 'index' AND name = 'idx_cips_updated_at';

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/6' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0003' WHERE pipestate_alembic_version.version_num = '0004';

COMMIT;

