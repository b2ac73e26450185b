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

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0004' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0004, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('job_results')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('job_results') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'job_id', 'directory_name', 'status', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'job_id', 'directory_name', 'status', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('job_results') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('job_results') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results exists, but its id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('job_results') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM job_results WHERE id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results has rows without a id, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('worker_heartbeats')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('worker_heartbeats exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('worker_heartbeats') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['worker_id', 'queue_name', 'status', 'current_job_id', 'last_heartbeat']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('worker_heartbeats') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('worker_heartbeats exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['worker_id', 'queue_name', 'status', 'current_job_id', 'last_heartbeat']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('worker_heartbeats') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('worker_heartbeats') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('worker_heartbeats') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'worker_id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('worker_heartbeats exists, but its worker_id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('worker_heartbeats') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM worker_heartbeats WHERE worker_id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('worker_heartbeats has rows without a worker_id, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('queue_history')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('queue_history') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'job_id', 'event', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('queue_history') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'job_id', 'event', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('queue_history') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('queue_history') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('queue_history') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history exists, but its id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('queue_history') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM queue_history WHERE id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history has rows without a id, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.jobs') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.jobs') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'jobs') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.jobs') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'jobs') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- jobs out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'jobs';
  the_aside CONSTANT text := 'pipestate_archive.jobs';
  the_name CONSTANT text := 'jobs';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''jobs'', ''0005'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create jobs
DO $pipestate$
BEGIN
IF to_regclass('jobs') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE jobs (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	customer_id VARCHAR, 
	package_size INTEGER, 
	status VARCHAR DEFAULT 'pending' NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'jobs', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '200ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '50ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN SHARE ROW EXCLUSIVE MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.job_results') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.job_results') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'job_results') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.job_results') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'job_results') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- job_results out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'job_results';
  the_aside CONSTANT text := 'pipestate_archive.job_results';
  the_name CONSTANT text := 'job_results';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''job_results'', ''0005'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create job_results
DO $pipestate$
BEGIN
IF to_regclass('job_results') IS NULL THEN
  EXECUTE replace($ddl$CREATE TABLE job_results (
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
)$ddl$, '{type of jobs.id}', (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = 'id'));
  EXECUTE $ddl$CREATE UNIQUE INDEX uix_job_results_idempotency_key ON job_results (idempotency_key)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_job_results_job_created ON job_results (job_id, created_at DESC)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_job_results_status_created ON job_results (status, created_at DESC)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'job_results', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'uix_job_results_idempotency_key', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_job_results_job_created', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_job_results_status_created', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.worker_heartbeats') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.worker_heartbeats') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'worker_heartbeats') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.worker_heartbeats') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'worker_heartbeats') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- worker_heartbeats out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'worker_heartbeats';
  the_aside CONSTANT text := 'pipestate_archive.worker_heartbeats';
  the_name CONSTANT text := 'worker_heartbeats';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''worker_heartbeats'', ''0005'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create worker_heartbeats
DO $pipestate$
BEGIN
IF to_regclass('worker_heartbeats') IS NULL THEN
  EXECUTE replace($ddl$CREATE TABLE worker_heartbeats (
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
)$ddl$, '{type of jobs.id}', (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = 'id'));
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'worker_heartbeats', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.queue_history') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.queue_history') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'queue_history') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.queue_history') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'queue_history') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- queue_history out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'queue_history';
  the_aside CONSTANT text := 'pipestate_archive.queue_history';
  the_name CONSTANT text := 'queue_history';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''queue_history'', ''0005'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create queue_history
DO $pipestate$
BEGIN
IF to_regclass('queue_history') IS NULL THEN
  EXECUTE replace($ddl$CREATE TABLE queue_history (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	job_id {type of jobs.id}, 
	directory_name VARCHAR, 
	event VARCHAR(50) NOT NULL, 
	details JSONB, 
	worker_id VARCHAR, 
	created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_queue_history PRIMARY KEY (id)
)$ddl$, '{type of jobs.id}', (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = 'id'));
  EXECUTE $ddl$CREATE INDEX idx_queue_history_job_id ON queue_history (job_id)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_queue_history_event ON queue_history (event)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_queue_history_created_at ON queue_history (created_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'queue_history', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_job_id', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_event', '0005') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_created_at', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF to_regclass('stale_workers') IS NULL THEN
  EXECUTE $ddl$CREATE VIEW stale_workers AS SELECT worker_id, queue_name, status, current_job_id, last_heartbeat,
       CAST(EXTRACT(EPOCH FROM (now() - last_heartbeat)) AS bigint) AS seconds_since
  FROM worker_heartbeats
 WHERE last_heartbeat < now() - INTERVAL '2 minutes'$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('view', 'stale_workers', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'view' AND name = 'stale_workers') THEN
  EXECUTE $ddl$COMMENT ON VIEW stale_workers IS 'Workers of any status that have been silent for more than two minutes; one that is gone for good leaves it when its row in worker_heartbeats is deleted'$ddl$;
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key', 'listing_url', 'error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results has %s, but that must hold text: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key', 'listing_url', 'error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('updated_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results has %s, but that must hold times: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('updated_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))));
END IF;
END $pipestate$;

INSERT INTO pipestate.object (kind, name, revision) SELECT 'column', 'job_results.' || wanted, '0005' FROM unnest(ARRAY['idempotency_key', 'payload', 'response_log', 'listing_url', 'error_message', 'updated_at']) AS wanted WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = wanted AND NOT attisdropped) ON CONFLICT DO NOTHING;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT ((SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND NOT attisdropped AND attname IN ('idempotency_key', 'payload', 'response_log', 'listing_url', 'error_message', 'updated_at') AND (atthasdef OR attname NOT IN ('updated_at'))) < 6) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- the columns that job_results lacks
DO $pipestate$
BEGIN
IF (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND NOT attisdropped AND attname IN ('idempotency_key', 'payload', 'response_log', 'listing_url', 'error_message', 'updated_at') AND (atthasdef OR attname NOT IN ('updated_at'))) < 6 THEN
  EXECUTE $ddl$ALTER TABLE job_results
  ADD COLUMN IF NOT EXISTS idempotency_key VARCHAR,
  ADD COLUMN IF NOT EXISTS payload JSONB,
  ADD COLUMN IF NOT EXISTS response_log JSONB,
  ADD COLUMN IF NOT EXISTS listing_url TEXT,
  ADD COLUMN IF NOT EXISTS error_message TEXT,
  ADD COLUMN IF NOT EXISTS updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  ALTER COLUMN updated_at SET DEFAULT CURRENT_TIMESTAMP$ddl$;
END IF;
END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = 'idempotency_key' AND NOT atthasdef AND NOT attnotnull)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname = 'idempotency_key' AND NOT atthasdef AND NOT attnotnull) THEN
  EXECUTE $ddl$ALTER TABLE job_results ALTER COLUMN idempotency_key SET DEFAULT 'adopted:' || gen_random_uuid()$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/1', false);

COMMIT;

SELECT set_config('pipestate.work', '', false);

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$SELECT set_config('pipestate.work', $work$UPDATE job_results SET idempotency_key = coalesce(idempotency_key, 'adopted:' || id) WHERE {range} AND (idempotency_key IS NULL)$work$, false)$ddl$;
END IF;
END $pipestate$;

-- job_results: 2000 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'job_results';
  the_key CONSTANT text[] := ARRAY['id']::text[];
  the_size CONSTANT integer := 2000;
  at_once CONSTANT boolean := false;
  quiet CONSTANT boolean := false;
  by_key CONSTANT boolean := false;
  relation regclass := to_regclass(the_table);
  work text := nullif(current_setting('pipestate.work', true), '');
  key text[] := the_key;
  names text;        -- {t}.a, {t}.b
  backwards text;
  texts text;
  after_last text;   -- conditions on {t}
  up_to_next text;
  last text[];
  next text[];
  within text;
  loud text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF relation IS NULL OR work IS NULL THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  SELECT string_agg(format('{t}.%I', name), ', ' ORDER BY n),
         string_agg(format('{t}.%I DESC', name), ', ' ORDER BY n),
         string_agg(format('{t}.%I::text', name), ', ' ORDER BY n),
         format('ROW(%s) > ROW(%s)', string_agg(format('{t}.%I', name), ', ' ORDER BY n),
                string_agg(format('$1[%s]::%s', n, format_type(atttypid, atttypmod)), ', ' ORDER BY n)),
         format('ROW(%s) <= ROW(%s)', string_agg(format('{t}.%I', name), ', ' ORDER BY n),
                string_agg(format('$2[%s]::%s', n, format_type(atttypid, atttypmod)), ', ' ORDER BY n))
    INTO names, backwards, texts, after_last, up_to_next
    FROM unnest(key) WITH ORDINALITY AS k (name, n) JOIN pg_attribute ON attrelid = relation AND attname = name;
  IF names IS NULL AND NOT at_once THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s has no primary key, by which its rows could be taken in batches: name unique columns', the_table);
  END IF;
  LOOP
    IF NOT at_once THEN
      -- the last key of the next batch; not max(), which some types do not have
      EXECUTE replace(format(
          'SELECT ARRAY[%1$s] FROM (SELECT * FROM %2$s AS {t} WHERE %3$s ORDER BY %4$s LIMIT %5$s) AS {t} '
          'ORDER BY %6$s LIMIT 1', texts, relation,
          CASE WHEN last IS NULL THEN format('(%s) IS NOT NULL', names) ELSE after_last END,
          names, the_size, backwards), '{t}', 's')
        INTO next USING last;
      EXIT WHEN next IS NULL;
    END IF;
    IF quiet THEN
      BEGIN
        PERFORM set_config('session_replication_role', 'replica', true);
      EXCEPTION WHEN insufficient_privilege THEN
        SELECT string_agg(tgname, ', ') INTO loud FROM pg_trigger
         WHERE last IS NULL AND tgrelid = relation AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 > 0;
        IF loud IS NOT NULL THEN
          loud := format('triggers of %s fire for every row that is brought back: %s. If one sets the time of the '
                         'last change, unchanged rows will look changed; a superuser can do it without them',
                         the_table, loud);
          RAISE WARNING '%', loud;
          PERFORM set_config('pipestate.said',
                             concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), loud), false);
        END IF;
      END;
    END IF;
    IF at_once THEN
      EXECUTE replace(replace(work, '{range}', 'true'), '{range s}', 'true');
      IF quiet THEN
        BEGIN
          PERFORM set_config('session_replication_role', 'origin', true);
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
      END IF;
      EXIT;
    END IF;
    IF by_key THEN
      -- Of a range of texts the planner may expect ten thousand times too many rows, and would then read whole tables
      -- for one batch, whose rows are locked meanwhile.
      PERFORM set_config(name, 'off', true) FROM unnest(ARRAY['enable_hashjoin', 'enable_mergejoin', 'enable_seqscan']) AS name;
    END IF;
    within := format('(%s AND %s)', CASE WHEN last IS NULL THEN '$1 IS NULL' ELSE after_last END, up_to_next);
    EXECUTE replace(replace(work, '{range}', replace(within, '{t}', the_table)), '{range s}', replace(within, '{t}', 's'))
      USING last, next;
    COMMIT;
    last := next;
  END LOOP;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_present')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_present') THEN
  EXECUTE $ddl$ALTER TABLE job_results ADD CONSTRAINT ck_job_results_present CHECK (idempotency_key IS NOT NULL) NOT VALID$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/2', false);

COMMIT;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_present') THEN
  EXECUTE $ddl$ALTER TABLE job_results VALIDATE CONSTRAINT ck_job_results_present$ddl$;
END IF;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key') AND NOT attnotnull AND NOT attisdropped) OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_present')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_results') AND attname IN ('idempotency_key') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$ALTER TABLE job_results ALTER COLUMN idempotency_key SET NOT NULL$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_present') THEN
  EXECUTE $ddl$ALTER TABLE job_results DROP CONSTRAINT ck_job_results_present$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('job_results') AND contype = 'f' AND attname = 'job_id' AND confrelid = to_regclass('jobs') AND confdeltype = 'c')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM job_results t WHERE job_id IS NOT NULL AND NOT EXISTS (SELECT FROM jobs p WHERE p.id = t.job_id));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of job_results point at no row of jobs (job_id). Fix them, then run the same again; to see them: SELECT * FROM job_results t WHERE job_id IS NOT NULL AND NOT EXISTS (SELECT FROM jobs p WHERE p.id = t.job_id)', bad);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND contype = 'f' AND conname = 'fk_job_results_job' AND (confrelid <> to_regclass('jobs') OR confdeltype <> 'c')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('foreign key fk_job_results_job on job_results exists with another definition: %s; wanted: (job_id) to jobs(id) on delete cascade. Drop it, then run the same again', (SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'fk_job_results_job'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('job_results') AND contype = 'f' AND attname = 'job_id' AND confrelid = to_regclass('jobs') AND confdeltype = 'c') AND EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('job_results') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- lock job_results, jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('job_results') AND contype = 'f' AND attname = 'job_id' AND confrelid = to_regclass('jobs') AND confdeltype = 'c')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results'), ('jobs')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results'), ('jobs')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('job_results') AND contype = 'f' AND attname = 'job_id' AND confrelid = to_regclass('jobs') AND confdeltype = 'c') THEN
  EXECUTE $ddl$ALTER TABLE job_results ADD CONSTRAINT fk_job_results_job FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'job_results.fk_job_results_job', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/3', false);

COMMIT;

DO $pipestate$
DECLARE
  todo text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname IN ('fk_job_results_job') AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE job_results ' || todo; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname IN ('fk_job_results_job') AND NOT convalidated));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_status')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM job_results t WHERE NOT (status IN ('submitting', 'submitted', 'failed', 'skipped')));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of job_results would break the rule ck_job_results_status (status IN (''submitting'', ''submitted'', ''failed'', ''skipped'')). Fix them, then run the same again; to see them: SELECT * FROM job_results t WHERE NOT (status IN (''submitting'', ''submitted'', ''failed'', ''skipped''))', bad);
  END IF;
END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_status')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname = 'ck_job_results_status') THEN
  EXECUTE $ddl$ALTER TABLE job_results ADD CONSTRAINT ck_job_results_status CHECK (status IN ('submitting', 'submitted', 'failed', 'skipped')) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'job_results.ck_job_results_status', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/4', false);

COMMIT;

DO $pipestate$
DECLARE
  todo text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname IN ('ck_job_results_status') AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE job_results ' || todo; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT ((SELECT count(*) FROM pg_constraint WHERE conrelid = to_regclass('job_results') AND conname IN ('ck_job_results_status') AND convalidated) = 1);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('uix_job_results_idempotency_key') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND indrelid = to_regclass('job_results')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('uix_job_results_idempotency_key exists, but is no index of job_results: %s; wanted: CREATE UNIQUE INDEX uix_job_results_idempotency_key ON job_results (idempotency_key). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('uix_job_results_idempotency_key')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('job_results') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('uix_job_results_idempotency_key')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index uix_job_results_idempotency_key exists with another definition: %s; wanted: CREATE UNIQUE INDEX uix_job_results_idempotency_key ON job_results (idempotency_key). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('uix_job_results_idempotency_key')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('uix_job_results_idempotency_key') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'uix_job_results_idempotency_key', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/5', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY uix_job_results_idempotency_key' WHERE to_regclass('uix_job_results_idempotency_key') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_uix_job_results_idempotency_key' WHERE to_regclass('pipestate_new_uix_job_results_idempotency_key') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_job_results_idempotency_key') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')))
  AND current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT 'CREATE UNIQUE INDEX CONCURRENTLY uix_job_results_idempotency_key ON job_results (idempotency_key)' WHERE NOT to_regclass('uix_job_results_idempotency_key') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/5' \gexec

SELECT 'CREATE UNIQUE INDEX CONCURRENTLY pipestate_new_uix_job_results_idempotency_key ON job_results (idempotency_key)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')) AND NOT to_regclass('pipestate_new_uix_job_results_idempotency_key') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/5' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_job_results_idempotency_key') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/5' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_job_results_idempotency_key') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- uix_job_results_idempotency_key takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_job_results_idempotency_key') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(idempotency_key)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_job_results_idempotency_key') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index uix_job_results_idempotency_key was another one (%s): rebuilt as CREATE UNIQUE INDEX uix_job_results_idempotency_key ON job_results (idempotency_key)',
    pg_get_indexdef(to_regclass('uix_job_results_idempotency_key')));
  EXECUTE format('DROP INDEX %s', to_regclass('uix_job_results_idempotency_key'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_uix_job_results_idempotency_key'), 'uix_job_results_idempotency_key');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_job_results_job_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND indrelid = to_regclass('job_results')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_job_results_job_created exists, but is no index of job_results: %s; wanted: CREATE INDEX idx_job_results_job_created ON job_results (job_id, created_at DESC). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_job_results_job_created')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('job_results') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_job_results_job_created')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_job_results_job_created exists with another definition: %s; wanted: CREATE INDEX idx_job_results_job_created ON job_results (job_id, created_at DESC). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_job_results_job_created')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_job_results_job_created') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_job_results_job_created', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/6', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_job_results_job_created' WHERE to_regclass('idx_job_results_job_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/6' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_job_results_job_created' WHERE to_regclass('pipestate_new_idx_job_results_job_created') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_job_created') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')))
  AND current_setting('pipestate.part', true) = '0005/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_job_results_job_created ON job_results (job_id, created_at DESC)' WHERE NOT to_regclass('idx_job_results_job_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_job_results_job_created ON job_results (job_id, created_at DESC)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')) AND NOT to_regclass('pipestate_new_idx_job_results_job_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/6' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_job_created') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/6' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_job_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_job_results_job_created takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_job_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id, created_at DESC)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_job_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_job_results_job_created was another one (%s): rebuilt as CREATE INDEX idx_job_results_job_created ON job_results (job_id, created_at DESC)',
    pg_get_indexdef(to_regclass('idx_job_results_job_created')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_job_results_job_created'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_job_results_job_created'), 'idx_job_results_job_created');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_job_results_status_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND indrelid = to_regclass('job_results')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_job_results_status_created exists, but is no index of job_results: %s; wanted: CREATE INDEX idx_job_results_status_created ON job_results (status, created_at DESC). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_job_results_status_created')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('job_results') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('job_results is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_job_results_status_created')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_job_results_status_created exists with another definition: %s; wanted: CREATE INDEX idx_job_results_status_created ON job_results (status, created_at DESC). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_job_results_status_created')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_job_results_status_created') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_job_results_status_created', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/7', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_job_results_status_created' WHERE to_regclass('idx_job_results_status_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/7' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_job_results_status_created' WHERE to_regclass('pipestate_new_idx_job_results_status_created') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_status_created') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')))
  AND current_setting('pipestate.part', true) = '0005/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_job_results_status_created ON job_results (status, created_at DESC)' WHERE NOT to_regclass('idx_job_results_status_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_job_results_status_created ON job_results (status, created_at DESC)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')) AND NOT to_regclass('pipestate_new_idx_job_results_status_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/7' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_status_created') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/7' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock job_results where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_status_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('job_results')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('job_results')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_job_results_status_created takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_job_results_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(status, created_at DESC)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_job_results_status_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_job_results_status_created was another one (%s): rebuilt as CREATE INDEX idx_job_results_status_created ON job_results (status, created_at DESC)',
    pg_get_indexdef(to_regclass('idx_job_results_status_created')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_job_results_status_created'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_job_results_status_created'), 'idx_job_results_status_created');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_queue_history_job_id') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND indrelid = to_regclass('queue_history')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_queue_history_job_id exists, but is no index of queue_history: %s; wanted: CREATE INDEX idx_queue_history_job_id ON queue_history (job_id). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_job_id')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('queue_history') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_queue_history_job_id')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_queue_history_job_id exists with another definition: %s; wanted: CREATE INDEX idx_queue_history_job_id ON queue_history (job_id). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_job_id')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_queue_history_job_id') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_job_id', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/8', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_queue_history_job_id' WHERE to_regclass('idx_queue_history_job_id') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/8' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_queue_history_job_id' WHERE to_regclass('pipestate_new_idx_queue_history_job_id') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_job_id') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')))
  AND current_setting('pipestate.part', true) = '0005/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_queue_history_job_id ON queue_history (job_id)' WHERE NOT to_regclass('idx_queue_history_job_id') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_queue_history_job_id ON queue_history (job_id)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')) AND NOT to_regclass('pipestate_new_idx_queue_history_job_id') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/8' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_job_id') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/8' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock queue_history where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_job_id') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('queue_history')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('queue_history')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_queue_history_job_id takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_job_id') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(job_id)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_job_id') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_queue_history_job_id was another one (%s): rebuilt as CREATE INDEX idx_queue_history_job_id ON queue_history (job_id)',
    pg_get_indexdef(to_regclass('idx_queue_history_job_id')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_queue_history_job_id'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_queue_history_job_id'), 'idx_queue_history_job_id');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_queue_history_event') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND indrelid = to_regclass('queue_history')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_queue_history_event exists, but is no index of queue_history: %s; wanted: CREATE INDEX idx_queue_history_event ON queue_history (event). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_event')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('queue_history') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_queue_history_event')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_queue_history_event exists with another definition: %s; wanted: CREATE INDEX idx_queue_history_event ON queue_history (event). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_event')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_queue_history_event') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_event', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/9', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_queue_history_event' WHERE to_regclass('idx_queue_history_event') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/9' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_queue_history_event' WHERE to_regclass('pipestate_new_idx_queue_history_event') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_event') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')))
  AND current_setting('pipestate.part', true) = '0005/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_queue_history_event ON queue_history (event)' WHERE NOT to_regclass('idx_queue_history_event') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_queue_history_event ON queue_history (event)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')) AND NOT to_regclass('pipestate_new_idx_queue_history_event') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/9' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_event') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/9' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock queue_history where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_event') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('queue_history')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('queue_history')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_queue_history_event takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_event') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(event)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_event') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_queue_history_event was another one (%s): rebuilt as CREATE INDEX idx_queue_history_event ON queue_history (event)',
    pg_get_indexdef(to_regclass('idx_queue_history_event')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_queue_history_event'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_queue_history_event'), 'idx_queue_history_event');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_queue_history_created_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND indrelid = to_regclass('queue_history')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_queue_history_created_at exists, but is no index of queue_history: %s; wanted: CREATE INDEX idx_queue_history_created_at ON queue_history (created_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_created_at')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('queue_history') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('queue_history is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_queue_history_created_at')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_queue_history_created_at exists with another definition: %s; wanted: CREATE INDEX idx_queue_history_created_at ON queue_history (created_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_queue_history_created_at')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_queue_history_created_at') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_queue_history_created_at', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/10', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_queue_history_created_at' WHERE to_regclass('idx_queue_history_created_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/10' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_queue_history_created_at' WHERE to_regclass('pipestate_new_idx_queue_history_created_at') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_created_at') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')))
  AND current_setting('pipestate.part', true) = '0005/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_queue_history_created_at ON queue_history (created_at)' WHERE NOT to_regclass('idx_queue_history_created_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_queue_history_created_at ON queue_history (created_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND NOT to_regclass('pipestate_new_idx_queue_history_created_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/10' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_created_at') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/10' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock queue_history where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_created_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('queue_history')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('queue_history')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_queue_history_created_at takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_queue_history_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_queue_history_created_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_queue_history_created_at was another one (%s): rebuilt as CREATE INDEX idx_queue_history_created_at ON queue_history (created_at)',
    pg_get_indexdef(to_regclass('idx_queue_history_created_at')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_queue_history_created_at'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_queue_history_created_at'), 'idx_queue_history_created_at');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_jobs_created_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND indrelid = to_regclass('jobs')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_jobs_created_at exists, but is no index of jobs: %s; wanted: CREATE INDEX idx_jobs_created_at ON jobs (created_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_jobs_created_at')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('jobs') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('jobs is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_jobs_created_at')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_jobs_created_at exists with another definition: %s; wanted: CREATE INDEX idx_jobs_created_at ON jobs (created_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_jobs_created_at')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_jobs_created_at') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_jobs_created_at', '0005') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0005/11', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_jobs_created_at' WHERE to_regclass('idx_jobs_created_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0005/11' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_jobs_created_at' WHERE to_regclass('pipestate_new_idx_jobs_created_at') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_jobs_created_at') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')))
  AND current_setting('pipestate.part', true) = '0005/11' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_jobs_created_at ON jobs (created_at)' WHERE NOT to_regclass('idx_jobs_created_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/11' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_jobs_created_at ON jobs (created_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND NOT to_regclass('pipestate_new_idx_jobs_created_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0005/11' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_jobs_created_at') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0005/11' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_jobs_created_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- idx_jobs_created_at takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_jobs_created_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_jobs_created_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_jobs_created_at was another one (%s): rebuilt as CREATE INDEX idx_jobs_created_at ON jobs (created_at)',
    pg_get_indexdef(to_regclass('idx_jobs_created_at')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_jobs_created_at'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_jobs_created_at'), 'idx_jobs_created_at');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0005' WHERE pipestate_alembic_version.version_num = '0004';

COMMIT;

