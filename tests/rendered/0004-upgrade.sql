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

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0003' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0003, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
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
IF (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state exists, but is no table (a view): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'content_item_id', 'pipeline', 'status']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'content_item_id', 'pipeline', 'status']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_item_pipeline_state') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('content_item_pipeline_state') AND indisunique AND indisvalid AND indpred IS NULL AND (indnkeyatts = 1 OR EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p')) AND attname = 'id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state exists, but its id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(DISTINCT a.attname::text, ', ') FROM pg_partition_tree(to_regclass('content_item_pipeline_state')) t JOIN pg_partitioned_table p ON p.partrelid = t.relid JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs::smallint[]) WHERE a.attname NOT IN ('content_item_id', 'pipeline')) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned by %s, so PostgreSQL cannot keep (content_item_id, pipeline) unique over all of its partitions: partition it by these columns, or by one of them, then run the same again', (SELECT string_agg(DISTINCT a.attname::text, ', ') FROM pg_partition_tree(to_regclass('content_item_pipeline_state')) t JOIN pg_partitioned_table p ON p.partrelid = t.relid JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs::smallint[]) WHERE a.attname NOT IN ('content_item_id', 'pipeline')));
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('content_item_pipeline_state') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM content_item_pipeline_state WHERE id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state has rows without a id, by which the chain finds rows: give them one or delete them, then run the same again');
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
  IF NOT (to_regclass('pipestate_archive.content_items') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.content_items') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_items') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.content_items') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_items') AS wanted (t));
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

-- content_items out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_items';
  the_aside CONSTANT text := 'pipestate_archive.content_items';
  the_name CONSTANT text := 'content_items';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''content_items'', ''0004'') ON CONFLICT DO NOTHING';
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

-- create content_items
DO $pipestate$
BEGIN
IF to_regclass('content_items') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE content_items (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	CONSTRAINT pk_content_items PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'content_items', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock content_items where needed: 200 ms at a time, for up to 60 s
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
  FROM (VALUES ('content_items')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_items')) AS wanted (t));
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
  IF NOT (to_regclass('pipestate_archive.content_item_pipeline_state') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.content_item_pipeline_state') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_item_pipeline_state') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.content_item_pipeline_state') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_item_pipeline_state') AS wanted (t));
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

-- content_item_pipeline_state out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_item_pipeline_state';
  the_aside CONSTANT text := 'pipestate_archive.content_item_pipeline_state';
  the_name CONSTANT text := 'content_item_pipeline_state';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''content_item_pipeline_state'', ''0004'') ON CONFLICT DO NOTHING';
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

-- create content_item_pipeline_state
DO $pipestate$
BEGIN
IF to_regclass('content_item_pipeline_state') IS NULL THEN
  EXECUTE replace($ddl$CREATE TABLE content_item_pipeline_state (
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
)$ddl$, '{type of content_items.id}', (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass('content_items') AND attname = 'id'));
  EXECUTE $ddl$CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_cips_error_code ON content_item_pipeline_state (error_code)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state (updated_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'content_item_pipeline_state', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'uix_cips_content_item_pipeline', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_pipeline_status_last_attempt', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_pipeline_status_created', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_content_item_pipeline_status', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_error_code', '0004') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_updated_at', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('attempt_count') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('int2', 'int4', 'int8'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state has %s, but that must hold integers: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('attempt_count') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('int2', 'int4', 'int8'))));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('error_code', 'error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state has %s, but that must hold text: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('error_code', 'error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('last_attempt_at', 'processed_at', 'created_at', 'updated_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state has %s, but that must hold times: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('last_attempt_at', 'processed_at', 'created_at', 'updated_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))));
END IF;
END $pipestate$;

INSERT INTO pipestate.object (kind, name, revision) SELECT 'column', 'content_item_pipeline_state.' || wanted, '0004' FROM unnest(ARRAY['attempt_count', 'error_code', 'error_message', 'last_attempt_at', 'processed_at', 'created_at', 'updated_at']) AS wanted WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = wanted AND NOT attisdropped) ON CONFLICT DO NOTHING;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT ((SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND NOT attisdropped AND attname IN ('attempt_count', 'error_code', 'error_message', 'last_attempt_at', 'processed_at', 'created_at', 'updated_at') AND (atthasdef OR attname NOT IN ('attempt_count', 'created_at', 'updated_at'))) < 7) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- the columns that content_item_pipeline_state lacks
DO $pipestate$
BEGIN
IF (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND NOT attisdropped AND attname IN ('attempt_count', 'error_code', 'error_message', 'last_attempt_at', 'processed_at', 'created_at', 'updated_at') AND (atthasdef OR attname NOT IN ('attempt_count', 'created_at', 'updated_at'))) < 7 THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state
  ADD COLUMN IF NOT EXISTS attempt_count INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS error_code VARCHAR(100),
  ADD COLUMN IF NOT EXISTS error_message TEXT,
  ADD COLUMN IF NOT EXISTS last_attempt_at TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS processed_at TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
  ADD COLUMN IF NOT EXISTS updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
  ALTER COLUMN attempt_count SET DEFAULT 0,
  ALTER COLUMN created_at SET DEFAULT CURRENT_TIMESTAMP,
  ALTER COLUMN updated_at SET DEFAULT CURRENT_TIMESTAMP$ddl$;
END IF;
END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'last_attempt_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'processed_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'created_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'updated_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'last_attempt_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'processed_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'created_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname = 'updated_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) THEN
  EXECUTE $ddl$DROP INDEX IF EXISTS idx_cips_pipeline_status_last_attempt$ddl$;
  EXECUTE $ddl$DROP INDEX IF EXISTS idx_cips_pipeline_status_created$ddl$;
  EXECUTE $ddl$DROP INDEX IF EXISTS idx_cips_updated_at$ddl$;
END IF;
END $pipestate$;

-- naive timestamps of content_item_pipeline_state, read as UTC
DO $pipestate$
DECLARE
  todo text;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  SELECT string_agg(format('ALTER COLUMN %I TYPE timestamptz', attname), ', ') INTO todo
  FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND atttypid = 'timestamp'::regtype
    AND attname IN ('last_attempt_at', 'processed_at', 'created_at', 'updated_at') AND NOT attisdropped;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE content_item_pipeline_state ' || todo; END IF;
  PERFORM set_config('TimeZone', 'UTC', true);
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f' AND attname = 'content_item_id' AND confrelid = to_regclass('content_items') AND confdeltype = 'c')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM content_item_pipeline_state t WHERE content_item_id IS NOT NULL AND NOT EXISTS (SELECT FROM content_items p WHERE p.id = t.content_item_id));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of content_item_pipeline_state point at no row of content_items (content_item_id). Fix them, then run the same again; to see them: SELECT * FROM content_item_pipeline_state t WHERE content_item_id IS NOT NULL AND NOT EXISTS (SELECT FROM content_items p WHERE p.id = t.content_item_id)', bad);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f' AND conname = 'fk_cips_content_item' AND (confrelid <> to_regclass('content_items') OR confdeltype <> 'c')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('foreign key fk_cips_content_item on content_item_pipeline_state exists with another definition: %s; wanted: (content_item_id) to content_items(id) on delete cascade. Drop it, then run the same again', (SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'fk_cips_content_item'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f' AND attname = 'content_item_id' AND confrelid = to_regclass('content_items') AND confdeltype = 'c') AND EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- lock content_item_pipeline_state, content_items where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f' AND attname = 'content_item_id' AND confrelid = to_regclass('content_items') AND confdeltype = 'c')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state'), ('content_items')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state'), ('content_items')) AS wanted (t));
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
IF NOT EXISTS (SELECT FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND conkey = ARRAY[attnum] WHERE conrelid = to_regclass('content_item_pipeline_state') AND contype = 'f' AND attname = 'content_item_id' AND confrelid = to_regclass('content_items') AND confdeltype = 'c') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state ADD CONSTRAINT fk_cips_content_item FOREIGN KEY (content_item_id) REFERENCES content_items (id) ON DELETE CASCADE NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'content_item_pipeline_state.fk_cips_content_item', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/1', false);

COMMIT;

DO $pipestate$
DECLARE
  todo text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname IN ('fk_cips_content_item') AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE content_item_pipeline_state ' || todo; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname IN ('fk_cips_content_item') AND NOT convalidated));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_status')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM content_item_pipeline_state t WHERE NOT (status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of content_item_pipeline_state would break the rule ck_cips_status (status IN (''pending'', ''in_progress'', ''processed'', ''failed_retryable'', ''failed_terminal'')). Fix them, then run the same again; to see them: SELECT * FROM content_item_pipeline_state t WHERE NOT (status IN (''pending'', ''in_progress'', ''processed'', ''failed_retryable'', ''failed_terminal''))', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_pipeline')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM content_item_pipeline_state t WHERE NOT (pipeline IN ('technical', 'fundamental')));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of content_item_pipeline_state would break the rule ck_cips_pipeline (pipeline IN (''technical'', ''fundamental'')). Fix them, then run the same again; to see them: SELECT * FROM content_item_pipeline_state t WHERE NOT (pipeline IN (''technical'', ''fundamental''))', bad);
  END IF;
END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_status') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_pipeline')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_status') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state ADD CONSTRAINT ck_cips_status CHECK (status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'content_item_pipeline_state.ck_cips_status', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_cips_pipeline') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state ADD CONSTRAINT ck_cips_pipeline CHECK (pipeline IN ('technical', 'fundamental')) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'content_item_pipeline_state.ck_cips_pipeline', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/2', false);

COMMIT;

DO $pipestate$
DECLARE
  todo text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname IN ('ck_cips_status', 'ck_cips_pipeline') AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE content_item_pipeline_state ' || todo; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT ((SELECT count(*) FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname IN ('ck_cips_status', 'ck_cips_pipeline') AND convalidated) = 2);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped)) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM content_item_pipeline_state t WHERE content_item_id IS NULL OR pipeline IS NULL OR status IS NULL);
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of content_item_pipeline_state have no value (content_item_id IS NULL OR pipeline IS NULL OR status IS NULL). Fix them, then run the same again; to see them: SELECT * FROM content_item_pipeline_state t WHERE content_item_id IS NULL OR pipeline IS NULL OR status IS NULL', bad);
  END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/3', false);

COMMIT;

SELECT set_config('pipestate.work', '', false);

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$SELECT set_config('pipestate.work', $work$UPDATE content_item_pipeline_state SET attempt_count = coalesce(attempt_count, 0), created_at = coalesce(created_at, coalesce(updated_at, last_attempt_at, CURRENT_TIMESTAMP)), updated_at = coalesce(updated_at, coalesce(last_attempt_at, created_at, CURRENT_TIMESTAMP)) WHERE {range} AND (content_item_id IS NULL OR pipeline IS NULL OR status IS NULL OR attempt_count IS NULL OR created_at IS NULL OR updated_at IS NULL)$work$, false)$ddl$;
END IF;
END $pipestate$;

-- content_item_pipeline_state: 2000 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_item_pipeline_state';
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/3' THEN
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_content_item_pipeline_state_present')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_content_item_pipeline_state_present') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state ADD CONSTRAINT ck_content_item_pipeline_state_present CHECK (content_item_id IS NOT NULL AND pipeline IS NOT NULL AND status IS NOT NULL AND attempt_count IS NOT NULL AND created_at IS NOT NULL AND updated_at IS NOT NULL) NOT VALID$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/4', false);

COMMIT;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_content_item_pipeline_state_present') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state VALIDATE CONSTRAINT ck_content_item_pipeline_state_present$ddl$;
END IF;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped) OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_content_item_pipeline_state_present')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_item_pipeline_state') AND attname IN ('content_item_id', 'pipeline', 'status', 'attempt_count', 'created_at', 'updated_at') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state ALTER COLUMN content_item_id SET NOT NULL, ALTER COLUMN pipeline SET NOT NULL, ALTER COLUMN status SET NOT NULL, ALTER COLUMN attempt_count SET NOT NULL, ALTER COLUMN created_at SET NOT NULL, ALTER COLUMN updated_at SET NOT NULL$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('content_item_pipeline_state') AND conname = 'ck_content_item_pipeline_state_present') THEN
  EXECUTE $ddl$ALTER TABLE content_item_pipeline_state DROP CONSTRAINT ck_content_item_pipeline_state_present$ddl$;
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('uix_cips_content_item_pipeline') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('uix_cips_content_item_pipeline exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('uix_cips_content_item_pipeline')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('uix_cips_content_item_pipeline')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index uix_cips_content_item_pipeline exists with another definition: %s; wanted: CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('uix_cips_content_item_pipeline')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('uix_cips_content_item_pipeline') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'uix_cips_content_item_pipeline', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/5', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY uix_cips_content_item_pipeline' WHERE to_regclass('uix_cips_content_item_pipeline') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_uix_cips_content_item_pipeline' WHERE to_regclass('pipestate_new_uix_cips_content_item_pipeline') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_cips_content_item_pipeline') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')))
  AND current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT 'CREATE UNIQUE INDEX CONCURRENTLY uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)' WHERE NOT to_regclass('uix_cips_content_item_pipeline') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/5' \gexec

SELECT 'CREATE UNIQUE INDEX CONCURRENTLY pipestate_new_uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')) AND NOT to_regclass('pipestate_new_uix_cips_content_item_pipeline') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/5' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_cips_content_item_pipeline') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/5' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_cips_content_item_pipeline') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- uix_cips_content_item_pipeline takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('uix_cips_content_item_pipeline') AND (indisunique <> true OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_uix_cips_content_item_pipeline') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index uix_cips_content_item_pipeline was another one (%s): rebuilt as CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state (content_item_id, pipeline)',
    pg_get_indexdef(to_regclass('uix_cips_content_item_pipeline')));
  EXECUTE format('DROP INDEX %s', to_regclass('uix_cips_content_item_pipeline'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_uix_cips_content_item_pipeline'), 'uix_cips_content_item_pipeline');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_cips_pipeline_status_last_attempt') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_cips_pipeline_status_last_attempt exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_pipeline_status_last_attempt')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_cips_pipeline_status_last_attempt')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_cips_pipeline_status_last_attempt exists with another definition: %s; wanted: CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_pipeline_status_last_attempt')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_cips_pipeline_status_last_attempt') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_pipeline_status_last_attempt', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/6', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_cips_pipeline_status_last_attempt' WHERE to_regclass('idx_cips_pipeline_status_last_attempt') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/6' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_cips_pipeline_status_last_attempt' WHERE to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')))
  AND current_setting('pipestate.part', true) = '0004/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at)' WHERE NOT to_regclass('idx_cips_pipeline_status_last_attempt') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')) AND NOT to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/6' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/6' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- idx_cips_pipeline_status_last_attempt takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_last_attempt') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, last_attempt_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_cips_pipeline_status_last_attempt was another one (%s): rebuilt as CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state (pipeline, status, last_attempt_at)',
    pg_get_indexdef(to_regclass('idx_cips_pipeline_status_last_attempt')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_cips_pipeline_status_last_attempt'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_cips_pipeline_status_last_attempt'), 'idx_cips_pipeline_status_last_attempt');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_cips_pipeline_status_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_cips_pipeline_status_created exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_pipeline_status_created')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_cips_pipeline_status_created')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_cips_pipeline_status_created exists with another definition: %s; wanted: CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_pipeline_status_created')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_cips_pipeline_status_created') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_pipeline_status_created', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/7', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_cips_pipeline_status_created' WHERE to_regclass('idx_cips_pipeline_status_created') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/7' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_cips_pipeline_status_created' WHERE to_regclass('pipestate_new_idx_cips_pipeline_status_created') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_created') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')))
  AND current_setting('pipestate.part', true) = '0004/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at)' WHERE NOT to_regclass('idx_cips_pipeline_status_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')) AND NOT to_regclass('pipestate_new_idx_cips_pipeline_status_created') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/7' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_created') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/7' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- idx_cips_pipeline_status_created takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_pipeline_status_created') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(pipeline, status, created_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_pipeline_status_created') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_cips_pipeline_status_created was another one (%s): rebuilt as CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state (pipeline, status, created_at)',
    pg_get_indexdef(to_regclass('idx_cips_pipeline_status_created')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_cips_pipeline_status_created'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_cips_pipeline_status_created'), 'idx_cips_pipeline_status_created');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_cips_content_item_pipeline_status') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_cips_content_item_pipeline_status exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_content_item_pipeline_status')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_cips_content_item_pipeline_status')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_cips_content_item_pipeline_status exists with another definition: %s; wanted: CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_content_item_pipeline_status')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_cips_content_item_pipeline_status') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_content_item_pipeline_status', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/8', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_cips_content_item_pipeline_status' WHERE to_regclass('idx_cips_content_item_pipeline_status') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/8' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_cips_content_item_pipeline_status' WHERE to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')))
  AND current_setting('pipestate.part', true) = '0004/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status)' WHERE NOT to_regclass('idx_cips_content_item_pipeline_status') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')) AND NOT to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/8' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/8' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- idx_cips_content_item_pipeline_status takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_content_item_pipeline_status') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(content_item_id, pipeline, status)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_content_item_pipeline_status') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_cips_content_item_pipeline_status was another one (%s): rebuilt as CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state (content_item_id, pipeline, status)',
    pg_get_indexdef(to_regclass('idx_cips_content_item_pipeline_status')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_cips_content_item_pipeline_status'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_cips_content_item_pipeline_status'), 'idx_cips_content_item_pipeline_status');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_cips_error_code') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_cips_error_code exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE INDEX idx_cips_error_code ON content_item_pipeline_state (error_code). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_error_code')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_cips_error_code')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_cips_error_code exists with another definition: %s; wanted: CREATE INDEX idx_cips_error_code ON content_item_pipeline_state (error_code). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_error_code')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_cips_error_code') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_error_code', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/9', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_cips_error_code' WHERE to_regclass('idx_cips_error_code') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/9' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_cips_error_code' WHERE to_regclass('pipestate_new_idx_cips_error_code') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_error_code') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')))
  AND current_setting('pipestate.part', true) = '0004/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_cips_error_code ON content_item_pipeline_state (error_code)' WHERE NOT to_regclass('idx_cips_error_code') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_cips_error_code ON content_item_pipeline_state (error_code)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')) AND NOT to_regclass('pipestate_new_idx_cips_error_code') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/9' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_error_code') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/9' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_error_code') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- idx_cips_error_code takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_error_code') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(error_code)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_error_code') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_cips_error_code was another one (%s): rebuilt as CREATE INDEX idx_cips_error_code ON content_item_pipeline_state (error_code)',
    pg_get_indexdef(to_regclass('idx_cips_error_code')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_cips_error_code'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_cips_error_code'), 'idx_cips_error_code');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_cips_updated_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND indrelid = to_regclass('content_item_pipeline_state')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_cips_updated_at exists, but is no index of content_item_pipeline_state: %s; wanted: CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state (updated_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_updated_at')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('content_item_pipeline_state') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_item_pipeline_state is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_cips_updated_at')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_cips_updated_at exists with another definition: %s; wanted: CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state (updated_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_cips_updated_at')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_cips_updated_at') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_cips_updated_at', '0004') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0004/10', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_cips_updated_at' WHERE to_regclass('idx_cips_updated_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0004/10' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_cips_updated_at' WHERE to_regclass('pipestate_new_idx_cips_updated_at') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_updated_at') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')))
  AND current_setting('pipestate.part', true) = '0004/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_cips_updated_at ON content_item_pipeline_state (updated_at)' WHERE NOT to_regclass('idx_cips_updated_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_cips_updated_at ON content_item_pipeline_state (updated_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND NOT to_regclass('pipestate_new_idx_cips_updated_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0004/10' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_updated_at') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0004/10' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock content_item_pipeline_state where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_updated_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_item_pipeline_state')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_item_pipeline_state')) AS wanted (t));
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

-- idx_cips_updated_at takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_cips_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_cips_updated_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_cips_updated_at was another one (%s): rebuilt as CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state (updated_at)',
    pg_get_indexdef(to_regclass('idx_cips_updated_at')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_cips_updated_at'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_cips_updated_at'), 'idx_cips_updated_at');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0004' WHERE pipestate_alembic_version.version_num = '0003';

COMMIT;

