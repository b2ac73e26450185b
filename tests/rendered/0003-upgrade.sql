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

-- Running upgrade 0002 -> 0003

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0002' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0002, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
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
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('int2', 'int4', 'int8'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites has %s, but that must hold integers: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('int2', 'int4', 'int8'))));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('current_stage', 'last_error_stage', 'last_error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites has %s, but that must hold text: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('current_stage', 'last_error_stage', 'last_error_message') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typcategory IN ('S', 'E'))));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('coordinator_enqueued') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname = 'bool')) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites has %s, but that must hold booleans: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('coordinator_enqueued') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname = 'bool')));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('started_at', 'updated_at', 'last_error_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites has %s, but that must hold times: rename it or change its type, then run the same again', (SELECT string_agg(attname || ' as ' || format_type(atttypid, atttypmod), ', ') FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('started_at', 'updated_at', 'last_error_at') AND NOT attisdropped AND atttypid NOT IN (SELECT oid FROM pg_type WHERE typname IN ('timestamp', 'timestamptz'))));
END IF;
END $pipestate$;

INSERT INTO pipestate.object (kind, name, revision) SELECT 'column', 'sites.' || wanted, '0003' FROM unnest(ARRAY['current_stage', 'started_at', 'updated_at', 'fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued', 'last_error_stage', 'last_error_message', 'last_error_at']) AS wanted WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = wanted AND NOT attisdropped) ON CONFLICT DO NOTHING;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT ((SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND NOT attisdropped AND attname IN ('current_stage', 'started_at', 'updated_at', 'fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued', 'last_error_stage', 'last_error_message', 'last_error_at') AND (atthasdef OR attname NOT IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued'))) < 22) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- the columns that sites lacks
DO $pipestate$
BEGIN
IF (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND NOT attisdropped AND attname IN ('current_stage', 'started_at', 'updated_at', 'fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued', 'last_error_stage', 'last_error_message', 'last_error_at') AND (atthasdef OR attname NOT IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued'))) < 22 THEN
  EXECUTE $ddl$ALTER TABLE sites
  ADD COLUMN IF NOT EXISTS current_stage VARCHAR,
  ADD COLUMN IF NOT EXISTS started_at TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS updated_at TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS fetch_total INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS fetch_completed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS fetch_failed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS ocr_total INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS ocr_completed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS ocr_failed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS compilation_total INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS compilation_completed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS compilation_failed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS extraction_total INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS extraction_completed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS extraction_failed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS deploy_total INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS deploy_completed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS deploy_failed INTEGER DEFAULT 0 NOT NULL,
  ADD COLUMN IF NOT EXISTS coordinator_enqueued BOOLEAN DEFAULT false NOT NULL,
  ADD COLUMN IF NOT EXISTS last_error_stage VARCHAR,
  ADD COLUMN IF NOT EXISTS last_error_message TEXT,
  ADD COLUMN IF NOT EXISTS last_error_at TIMESTAMP WITH TIME ZONE,
  ALTER COLUMN fetch_total SET DEFAULT 0,
  ALTER COLUMN fetch_completed SET DEFAULT 0,
  ALTER COLUMN fetch_failed SET DEFAULT 0,
  ALTER COLUMN ocr_total SET DEFAULT 0,
  ALTER COLUMN ocr_completed SET DEFAULT 0,
  ALTER COLUMN ocr_failed SET DEFAULT 0,
  ALTER COLUMN compilation_total SET DEFAULT 0,
  ALTER COLUMN compilation_completed SET DEFAULT 0,
  ALTER COLUMN compilation_failed SET DEFAULT 0,
  ALTER COLUMN extraction_total SET DEFAULT 0,
  ALTER COLUMN extraction_completed SET DEFAULT 0,
  ALTER COLUMN extraction_failed SET DEFAULT 0,
  ALTER COLUMN deploy_total SET DEFAULT 0,
  ALTER COLUMN deploy_completed SET DEFAULT 0,
  ALTER COLUMN deploy_failed SET DEFAULT 0,
  ALTER COLUMN coordinator_enqueued SET DEFAULT false$ddl$;
END IF;
END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'started_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'updated_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'last_error_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'started_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'updated_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = 'last_error_at' AND NOT attisdropped AND atttypid = 'timestamp'::regtype) THEN
  EXECUTE $ddl$DROP INDEX IF EXISTS idx_sites_updated_at$ddl$;
END IF;
END $pipestate$;

-- naive timestamps of sites, read as UTC
DO $pipestate$
DECLARE
  todo text;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  SELECT string_agg(format('ALTER COLUMN %I TYPE timestamptz', attname), ', ') INTO todo
  FROM pg_attribute WHERE attrelid = to_regclass('sites') AND atttypid = 'timestamp'::regtype
    AND attname IN ('started_at', 'updated_at', 'last_error_at') AND NOT attisdropped;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE sites ' || todo; END IF;
  PERFORM set_config('TimeZone', 'UTC', true);
END $pipestate$;

SELECT set_config('pipestate.part', '0003/1', false);

COMMIT;

SELECT set_config('pipestate.work', '', false);

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$SELECT set_config('pipestate.work', $work$UPDATE sites SET fetch_total = coalesce(fetch_total, 0), fetch_completed = coalesce(fetch_completed, 0), fetch_failed = coalesce(fetch_failed, 0), ocr_total = coalesce(ocr_total, 0), ocr_completed = coalesce(ocr_completed, 0), ocr_failed = coalesce(ocr_failed, 0), compilation_total = coalesce(compilation_total, 0), compilation_completed = coalesce(compilation_completed, 0), compilation_failed = coalesce(compilation_failed, 0), extraction_total = coalesce(extraction_total, 0), extraction_completed = coalesce(extraction_completed, 0), extraction_failed = coalesce(extraction_failed, 0), deploy_total = coalesce(deploy_total, 0), deploy_completed = coalesce(deploy_completed, 0), deploy_failed = coalesce(deploy_failed, 0), coordinator_enqueued = coalesce(coordinator_enqueued, false) WHERE {range} AND (fetch_total IS NULL OR fetch_completed IS NULL OR fetch_failed IS NULL OR ocr_total IS NULL OR ocr_completed IS NULL OR ocr_failed IS NULL OR compilation_total IS NULL OR compilation_completed IS NULL OR compilation_failed IS NULL OR extraction_total IS NULL OR extraction_completed IS NULL OR extraction_failed IS NULL OR deploy_total IS NULL OR deploy_completed IS NULL OR deploy_failed IS NULL OR coordinator_enqueued IS NULL)$work$, false)$ddl$;
END IF;
END $pipestate$;

-- sites: 2000 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/1' THEN
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_present')) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued') AND NOT attnotnull AND NOT attisdropped) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_present') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_present CHECK (fetch_total IS NOT NULL AND fetch_completed IS NOT NULL AND fetch_failed IS NOT NULL AND ocr_total IS NOT NULL AND ocr_completed IS NOT NULL AND ocr_failed IS NOT NULL AND compilation_total IS NOT NULL AND compilation_completed IS NOT NULL AND compilation_failed IS NOT NULL AND extraction_total IS NOT NULL AND extraction_completed IS NOT NULL AND extraction_failed IS NOT NULL AND deploy_total IS NOT NULL AND deploy_completed IS NOT NULL AND deploy_failed IS NOT NULL AND coordinator_enqueued IS NOT NULL) NOT VALID$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/2', false);

COMMIT;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_present') THEN
  EXECUTE $ddl$ALTER TABLE sites VALIDATE CONSTRAINT ck_sites_present$ddl$;
END IF;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued') AND NOT attnotnull AND NOT attisdropped) OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_present')) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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
IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('fetch_total', 'fetch_completed', 'fetch_failed', 'ocr_total', 'ocr_completed', 'ocr_failed', 'compilation_total', 'compilation_completed', 'compilation_failed', 'extraction_total', 'extraction_completed', 'extraction_failed', 'deploy_total', 'deploy_completed', 'deploy_failed', 'coordinator_enqueued') AND NOT attnotnull AND NOT attisdropped) THEN
  EXECUTE $ddl$ALTER TABLE sites ALTER COLUMN fetch_total SET NOT NULL, ALTER COLUMN fetch_completed SET NOT NULL, ALTER COLUMN fetch_failed SET NOT NULL, ALTER COLUMN ocr_total SET NOT NULL, ALTER COLUMN ocr_completed SET NOT NULL, ALTER COLUMN ocr_failed SET NOT NULL, ALTER COLUMN compilation_total SET NOT NULL, ALTER COLUMN compilation_completed SET NOT NULL, ALTER COLUMN compilation_failed SET NOT NULL, ALTER COLUMN extraction_total SET NOT NULL, ALTER COLUMN extraction_completed SET NOT NULL, ALTER COLUMN extraction_failed SET NOT NULL, ALTER COLUMN deploy_total SET NOT NULL, ALTER COLUMN deploy_completed SET NOT NULL, ALTER COLUMN deploy_failed SET NOT NULL, ALTER COLUMN coordinator_enqueued SET NOT NULL$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_present') THEN
  EXECUTE $ddl$ALTER TABLE sites DROP CONSTRAINT ck_sites_present$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_current_stage')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (current_stage IN ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_current_stage (current_stage IN (''fetch'', ''ocr'', ''compilation'', ''extraction'', ''deploy'', ''completed'')). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (current_stage IN (''fetch'', ''ocr'', ''compilation'', ''extraction'', ''deploy'', ''completed''))', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_fetch_counters')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (fetch_total >= 0 AND fetch_completed >= 0 AND fetch_failed >= 0));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_fetch_counters (fetch_total >= 0 AND fetch_completed >= 0 AND fetch_failed >= 0). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (fetch_total >= 0 AND fetch_completed >= 0 AND fetch_failed >= 0)', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_ocr_counters')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (ocr_total >= 0 AND ocr_completed >= 0 AND ocr_failed >= 0));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_ocr_counters (ocr_total >= 0 AND ocr_completed >= 0 AND ocr_failed >= 0). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (ocr_total >= 0 AND ocr_completed >= 0 AND ocr_failed >= 0)', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_compilation_counters')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (compilation_total >= 0 AND compilation_completed >= 0 AND compilation_failed >= 0));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_compilation_counters (compilation_total >= 0 AND compilation_completed >= 0 AND compilation_failed >= 0). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (compilation_total >= 0 AND compilation_completed >= 0 AND compilation_failed >= 0)', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_extraction_counters')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (extraction_total >= 0 AND extraction_completed >= 0 AND extraction_failed >= 0));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_extraction_counters (extraction_total >= 0 AND extraction_completed >= 0 AND extraction_failed >= 0). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (extraction_total >= 0 AND extraction_completed >= 0 AND extraction_failed >= 0)', bad);
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  bad bigint;
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_deploy_counters')) THEN RETURN; END IF;
  bad := (SELECT count(*) FROM sites t WHERE NOT (deploy_total >= 0 AND deploy_completed >= 0 AND deploy_failed >= 0));
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s rows of sites would break the rule ck_sites_deploy_counters (deploy_total >= 0 AND deploy_completed >= 0 AND deploy_failed >= 0). Fix them, then run the same again; to see them: SELECT * FROM sites t WHERE NOT (deploy_total >= 0 AND deploy_completed >= 0 AND deploy_failed >= 0)', bad);
  END IF;
END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_current_stage') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_fetch_counters') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_ocr_counters') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_compilation_counters') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_extraction_counters') OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_deploy_counters')) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_current_stage') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_current_stage CHECK (current_stage IN ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_current_stage', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_fetch_counters') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_fetch_counters CHECK (fetch_total >= 0 AND fetch_completed >= 0 AND fetch_failed >= 0) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_fetch_counters', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_ocr_counters') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_ocr_counters CHECK (ocr_total >= 0 AND ocr_completed >= 0 AND ocr_failed >= 0) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_ocr_counters', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_compilation_counters') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_compilation_counters CHECK (compilation_total >= 0 AND compilation_completed >= 0 AND compilation_failed >= 0) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_compilation_counters', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_extraction_counters') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_extraction_counters CHECK (extraction_total >= 0 AND extraction_completed >= 0 AND extraction_failed >= 0) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_extraction_counters', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname = 'ck_sites_deploy_counters') THEN
  EXECUTE $ddl$ALTER TABLE sites ADD CONSTRAINT ck_sites_deploy_counters CHECK (deploy_total >= 0 AND deploy_completed >= 0 AND deploy_failed >= 0) NOT VALID$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('constraint', 'sites.ck_sites_deploy_counters', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/3', false);

COMMIT;

DO $pipestate$
DECLARE
  todo text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
  SELECT string_agg(format('VALIDATE CONSTRAINT %I', conname), ', ') INTO todo
  FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname IN ('ck_sites_current_stage', 'ck_sites_fetch_counters', 'ck_sites_ocr_counters', 'ck_sites_compilation_counters', 'ck_sites_extraction_counters', 'ck_sites_deploy_counters') AND NOT convalidated;
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE sites ' || todo; END IF;
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT ((SELECT count(*) FROM pg_constraint WHERE conrelid = to_regclass('sites') AND conname IN ('ck_sites_current_stage', 'ck_sites_fetch_counters', 'ck_sites_ocr_counters', 'ck_sites_compilation_counters', 'ck_sites_extraction_counters', 'ck_sites_deploy_counters') AND convalidated) = 6);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_sites_current_stage') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND indrelid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_sites_current_stage exists, but is no index of sites: %s; wanted: CREATE INDEX idx_sites_current_stage ON sites (current_stage). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_current_stage')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('sites') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_sites_current_stage')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_sites_current_stage exists with another definition: %s; wanted: CREATE INDEX idx_sites_current_stage ON sites (current_stage). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_current_stage')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_sites_current_stage') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_sites_current_stage', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/4', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_sites_current_stage' WHERE to_regclass('idx_sites_current_stage') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_sites_current_stage' WHERE to_regclass('pipestate_new_idx_sites_current_stage') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_current_stage') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')))
  AND current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_sites_current_stage ON sites (current_stage)' WHERE NOT to_regclass('idx_sites_current_stage') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/4' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_sites_current_stage ON sites (current_stage)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')) AND NOT to_regclass('pipestate_new_idx_sites_current_stage') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/4' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_current_stage') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/4' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_current_stage') AND indisvalid AND indisready)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- idx_sites_current_stage takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_current_stage') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(current_stage)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_current_stage') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_sites_current_stage was another one (%s): rebuilt as CREATE INDEX idx_sites_current_stage ON sites (current_stage)',
    pg_get_indexdef(to_regclass('idx_sites_current_stage')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_sites_current_stage'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_sites_current_stage'), 'idx_sites_current_stage');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_sites_updated_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND indrelid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_sites_updated_at exists, but is no index of sites: %s; wanted: CREATE INDEX idx_sites_updated_at ON sites (updated_at). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_updated_at')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('sites') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_sites_updated_at')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_sites_updated_at exists with another definition: %s; wanted: CREATE INDEX idx_sites_updated_at ON sites (updated_at). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_updated_at')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_sites_updated_at') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_sites_updated_at', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/5', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_sites_updated_at' WHERE to_regclass('idx_sites_updated_at') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_sites_updated_at' WHERE to_regclass('pipestate_new_idx_sites_updated_at') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_updated_at') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')))
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_sites_updated_at ON sites (updated_at)' WHERE NOT to_regclass('idx_sites_updated_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_sites_updated_at ON sites (updated_at)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND NOT to_regclass('pipestate_new_idx_sites_updated_at') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/5' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_updated_at') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/5' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_updated_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- idx_sites_updated_at takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_updated_at') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(updated_at)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_updated_at') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_sites_updated_at was another one (%s): rebuilt as CREATE INDEX idx_sites_updated_at ON sites (updated_at)',
    pg_get_indexdef(to_regclass('idx_sites_updated_at')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_sites_updated_at'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_sites_updated_at'), 'idx_sites_updated_at');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_sites_coordinator_enqueued') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND indrelid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_sites_coordinator_enqueued exists, but is no index of sites: %s; wanted: CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_coordinator_enqueued')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('sites') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_sites_coordinator_enqueued')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_sites_coordinator_enqueued exists with another definition: %s; wanted: CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_coordinator_enqueued')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_sites_coordinator_enqueued') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_sites_coordinator_enqueued', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/6', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_sites_coordinator_enqueued' WHERE to_regclass('idx_sites_coordinator_enqueued') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/6' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_sites_coordinator_enqueued' WHERE to_regclass('pipestate_new_idx_sites_coordinator_enqueued') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_coordinator_enqueued') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')))
  AND current_setting('pipestate.part', true) = '0003/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)' WHERE NOT to_regclass('idx_sites_coordinator_enqueued') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/6' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')) AND NOT to_regclass('pipestate_new_idx_sites_coordinator_enqueued') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/6' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_coordinator_enqueued') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/6' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_coordinator_enqueued') AND indisvalid AND indisready)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- idx_sites_coordinator_enqueued takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_coordinator_enqueued') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_coordinator_enqueued') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_sites_coordinator_enqueued was another one (%s): rebuilt as CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)',
    pg_get_indexdef(to_regclass('idx_sites_coordinator_enqueued')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_sites_coordinator_enqueued'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_sites_coordinator_enqueued'), 'idx_sites_coordinator_enqueued');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_sites_contradictions') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND indrelid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_sites_contradictions exists, but is no index of sites: %s; wanted: CREATE INDEX idx_sites_contradictions ON sites (subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = ''completed'' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_contradictions')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('sites') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_sites_contradictions')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_sites_contradictions exists with another definition: %s; wanted: CREATE INDEX idx_sites_contradictions ON sites (subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = ''completed'' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_contradictions')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_sites_contradictions') IS NOT NULL THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_sites_contradictions', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/7', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_sites_contradictions' WHERE to_regclass('idx_sites_contradictions') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/7' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_sites_contradictions' WHERE to_regclass('pipestate_new_idx_sites_contradictions') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_contradictions') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')))
  AND current_setting('pipestate.part', true) = '0003/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_sites_contradictions ON sites (subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = ''completed'' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)' WHERE NOT to_regclass('idx_sites_contradictions') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/7' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_sites_contradictions ON sites (subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = ''completed'' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')) AND NOT to_regclass('pipestate_new_idx_sites_contradictions') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/7' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_contradictions') AND indisvalid AND indisready)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/7' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_contradictions') AND indisvalid AND indisready)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- idx_sites_contradictions takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_contradictions') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHERECASEWHENfetch_completed>fetch_total-fetch_failedORocr_completed>ocr_total-ocr_failedORcompilation_completed>compilation_total-compilation_failedORextraction_completed>extraction_total-extraction_failedORdeploy_completed>deploy_total-deploy_failedORcurrent_stage=''completed''ANDcoordinator_enqueuedORcurrent_stageISNULLANDocr_total>0THEN1ELSE0END=1')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_contradictions') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_sites_contradictions was another one (%s): rebuilt as CREATE INDEX idx_sites_contradictions ON sites (subdomain) WHERE (CASE WHEN fetch_completed > (fetch_total - fetch_failed) OR ocr_completed > (ocr_total - ocr_failed) OR compilation_completed > (compilation_total - compilation_failed) OR extraction_completed > (extraction_total - extraction_failed) OR deploy_completed > (deploy_total - deploy_failed) OR (current_stage = ''completed'' AND coordinator_enqueued) OR (current_stage IS NULL AND ocr_total > 0) THEN 1 ELSE 0 END = 1)',
    pg_get_indexdef(to_regclass('idx_sites_contradictions')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_sites_contradictions'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_sites_contradictions'), 'idx_sites_contradictions');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_sites_legacy_times') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND indrelid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_sites_legacy_times exists, but is no index of sites: %s; wanted: CREATE INDEX idx_sites_legacy_times ON sites (substr(GREATEST(replace(last_updated::text COLLATE "C", '' '', ''T''),
  replace(last_deployed::text COLLATE "C", '' '', ''T''), replace(last_extracted::text COLLATE "C", '' '', ''T'')), 1, 40)). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_legacy_times')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('sites') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_sites_legacy_times')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_sites_legacy_times exists with another definition: %s; wanted: CREATE INDEX idx_sites_legacy_times ON sites (substr(GREATEST(replace(last_updated::text COLLATE "C", '' '', ''T''),
  replace(last_deployed::text COLLATE "C", '' '', ''T''), replace(last_extracted::text COLLATE "C", '' '', ''T'')), 1, 40)). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_sites_legacy_times')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_sites_legacy_times') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('last_updated', 'last_deployed', 'last_extracted') AND NOT attisdropped AND atttypid IN ('text'::regtype, 'varchar'::regtype)) = 3 THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_sites_legacy_times', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/8', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_sites_legacy_times' WHERE to_regclass('idx_sites_legacy_times') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/8' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_sites_legacy_times' WHERE to_regclass('pipestate_new_idx_sites_legacy_times') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_legacy_times') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')))
  AND current_setting('pipestate.part', true) = '0003/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_sites_legacy_times ON sites (substr(GREATEST(replace(last_updated::text COLLATE "C", '' '', ''T''),
  replace(last_deployed::text COLLATE "C", '' '', ''T''), replace(last_extracted::text COLLATE "C", '' '', ''T'')), 1, 40))' WHERE NOT to_regclass('idx_sites_legacy_times') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('last_updated', 'last_deployed', 'last_extracted') AND NOT attisdropped AND atttypid IN ('text'::regtype, 'varchar'::regtype)) = 3
  AND current_setting('pipestate.part', true) = '0003/8' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_sites_legacy_times ON sites (substr(GREATEST(replace(last_updated::text COLLATE "C", '' '', ''T''),
  replace(last_deployed::text COLLATE "C", '' '', ''T''), replace(last_extracted::text COLLATE "C", '' '', ''T'')), 1, 40))' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')) AND NOT to_regclass('pipestate_new_idx_sites_legacy_times') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/8' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_legacy_times') AND indisvalid AND indisready)) OR NOT (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname IN ('last_updated', 'last_deployed', 'last_extracted') AND NOT attisdropped AND atttypid IN ('text'::regtype, 'varchar'::regtype)) = 3);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/8' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_legacy_times') AND indisvalid AND indisready)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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

-- idx_sites_legacy_times takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_sites_legacy_times') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'substrGREATESTreplacelast_updatedCOLLATE"C",'''',''T'',replacelast_deployedCOLLATE"C",'''',''T'',replacelast_extractedCOLLATE"C",'''',''T'',1,40')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_sites_legacy_times') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_sites_legacy_times was another one (%s): rebuilt as CREATE INDEX idx_sites_legacy_times ON sites (substr(GREATEST(replace(last_updated::text COLLATE "C", '' '', ''T''),
  replace(last_deployed::text COLLATE "C", '' '', ''T''), replace(last_extracted::text COLLATE "C", '' '', ''T'')), 1, 40))',
    pg_get_indexdef(to_regclass('idx_sites_legacy_times')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_sites_legacy_times'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_sites_legacy_times'), 'idx_sites_legacy_times');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_site_progress_ocr') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND indrelid = to_regclass('site_progress')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_site_progress_ocr exists, but is no index of site_progress: %s; wanted: CREATE INDEX idx_site_progress_ocr ON site_progress (subdomain) WHERE (current_stage = ''ocr''). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_site_progress_ocr')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('site_progress') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_site_progress_ocr')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_site_progress_ocr exists with another definition: %s; wanted: CREATE INDEX idx_site_progress_ocr ON site_progress (subdomain) WHERE (current_stage = ''ocr''). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_site_progress_ocr')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_site_progress_ocr') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('subdomain', 'current_stage') AND NOT attisdropped) = 2 THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_site_progress_ocr', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/9', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_site_progress_ocr' WHERE to_regclass('idx_site_progress_ocr') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/9' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_site_progress_ocr' WHERE to_regclass('pipestate_new_idx_site_progress_ocr') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_ocr') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')))
  AND current_setting('pipestate.part', true) = '0003/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_site_progress_ocr ON site_progress (subdomain) WHERE (current_stage = ''ocr'')' WHERE NOT to_regclass('idx_site_progress_ocr') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('subdomain', 'current_stage') AND NOT attisdropped) = 2
  AND current_setting('pipestate.part', true) = '0003/9' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_site_progress_ocr ON site_progress (subdomain) WHERE (current_stage = ''ocr'')' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')) AND NOT to_regclass('pipestate_new_idx_site_progress_ocr') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/9' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_ocr') AND indisvalid AND indisready)) OR NOT (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('subdomain', 'current_stage') AND NOT attisdropped) = 2);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/9' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_ocr') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress')) AS wanted (t));
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

-- idx_site_progress_ocr takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_ocr') AND (indisunique <> false OR regexp_replace(split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2), '::(character varying|[\w.]+)|[()\s]', '', 'g') <> 'subdomainWHEREcurrent_stage=''ocr''')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_ocr') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_site_progress_ocr was another one (%s): rebuilt as CREATE INDEX idx_site_progress_ocr ON site_progress (subdomain) WHERE (current_stage = ''ocr'')',
    pg_get_indexdef(to_regclass('idx_site_progress_ocr')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_site_progress_ocr'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_site_progress_ocr'), 'idx_site_progress_ocr');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('idx_site_progress_touched') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND indrelid = to_regclass('site_progress')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('idx_site_progress_touched exists, but is no index of site_progress: %s; wanted: CREATE INDEX idx_site_progress_touched ON site_progress (GREATEST(updated_at, started_at)). Drop or rename it, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_site_progress_touched')), 'no index'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('site_progress') AND relkind = 'p') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress is partitioned, and this script has no steps for that: run the revision online, or write the script with partitions=True');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')) AND EXISTS (SELECT FROM pg_constraint WHERE conindid = to_regclass('idx_site_progress_touched')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('index idx_site_progress_touched exists with another definition: %s; wanted: CREATE INDEX idx_site_progress_touched ON site_progress (GREATEST(updated_at, started_at)). It belongs to a constraint, so it is not replaced: drop or rename the constraint, then run the same again', coalesce(pg_get_indexdef(to_regclass('idx_site_progress_touched')), 'no index'));
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF NOT to_regclass('idx_site_progress_touched') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('updated_at', 'started_at') AND NOT attisdropped AND atttypid IN ('timestamptz'::regtype)) = 2 THEN
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_site_progress_touched', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

SELECT set_config('pipestate.part', '0003/10', false);

COMMIT;

SET lock_timeout = '10min';

SELECT 'DROP INDEX CONCURRENTLY idx_site_progress_touched' WHERE to_regclass('idx_site_progress_touched') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND indisvalid AND indisready)
  AND current_setting('pipestate.part', true) = '0003/10' \gexec

SELECT 'DROP INDEX CONCURRENTLY pipestate_new_idx_site_progress_touched' WHERE to_regclass('pipestate_new_idx_site_progress_touched') IS NOT NULL AND NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_touched') AND indisvalid AND indisready) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')))
  AND current_setting('pipestate.part', true) = '0003/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY idx_site_progress_touched ON site_progress (GREATEST(updated_at, started_at))' WHERE NOT to_regclass('idx_site_progress_touched') IS NOT NULL AND (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('updated_at', 'started_at') AND NOT attisdropped AND atttypid IN ('timestamptz'::regtype)) = 2
  AND current_setting('pipestate.part', true) = '0003/10' \gexec

SELECT 'CREATE INDEX CONCURRENTLY pipestate_new_idx_site_progress_touched ON site_progress (GREATEST(updated_at, started_at))' WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')) AND NOT to_regclass('pipestate_new_idx_site_progress_touched') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/10' \gexec

SET lock_timeout = '60s';

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND indisvalid AND indisready) AND (NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')) OR EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_touched') AND indisvalid AND indisready)) OR NOT (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname IN ('updated_at', 'started_at') AND NOT attisdropped AND atttypid IN ('timestamptz'::regtype)) = 2);

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/10' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_touched') AND indisvalid AND indisready)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress')) AS wanted (t));
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

-- idx_site_progress_touched takes the place of another index of that name
DO $pipestate$
DECLARE
  said text;
BEGIN
  IF NOT (EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('idx_site_progress_touched') AND (indisunique <> false OR split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2) <> '(GREATEST(updated_at, started_at))')) AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('pipestate_new_idx_site_progress_touched') AND indisvalid AND indisready)) THEN RETURN; END IF;
  said := format('index idx_site_progress_touched was another one (%s): rebuilt as CREATE INDEX idx_site_progress_touched ON site_progress (GREATEST(updated_at, started_at))',
    pg_get_indexdef(to_regclass('idx_site_progress_touched')));
  EXECUTE format('DROP INDEX %s', to_regclass('idx_site_progress_touched'));
  EXECUTE format('ALTER INDEX %s RENAME TO %I', to_regclass('pipestate_new_idx_site_progress_touched'), 'idx_site_progress_touched');
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);
END $pipestate$;

SELECT set_config('pipestate.part', '0003/11', false);

COMMIT;

SELECT 'ANALYZE sites' WHERE to_regclass('sites') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/11' \gexec

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/11' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0003/12', false);

COMMIT;

SELECT 'ANALYZE site_progress' WHERE to_regclass('site_progress') IS NOT NULL
  AND current_setting('pipestate.part', true) = '0003/12' \gexec

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0003/12' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
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
  FROM (VALUES ('sites')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites')) AS wanted (t));
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
  IF NOT (to_regclass('pipestate_archive.pipeline_job') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipeline_job') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_job') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipeline_job') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_job') AS wanted (t));
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

-- pipeline_job out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'pipeline_job';
  the_aside CONSTANT text := 'pipestate_archive.pipeline_job';
  the_name CONSTANT text := 'pipeline_job';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''pipeline_job'', ''0003'') ON CONFLICT DO NOTHING';
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

-- create pipeline_job
DO $pipestate$
BEGIN
IF to_regclass('pipeline_job') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipeline_job (
	subdomain VARCHAR NOT NULL, 
	stage VARCHAR NOT NULL, 
	job_key VARCHAR NOT NULL, 
	finished_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_pipeline_job PRIMARY KEY (subdomain, stage, job_key), 
	CONSTRAINT fk_pipeline_job_site FOREIGN KEY(subdomain) REFERENCES sites (subdomain) ON DELETE CASCADE
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'pipeline_job', '0003') ON CONFLICT DO NOTHING$ddl$;
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
  IF NOT (to_regclass('pipestate_archive.pipeline_claim') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipeline_claim') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_claim') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipeline_claim') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_claim') AS wanted (t));
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

-- pipeline_claim out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'pipeline_claim';
  the_aside CONSTANT text := 'pipestate_archive.pipeline_claim';
  the_name CONSTANT text := 'pipeline_claim';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''pipeline_claim'', ''0003'') ON CONFLICT DO NOTHING';
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

-- create pipeline_claim
DO $pipestate$
BEGIN
IF to_regclass('pipeline_claim') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipeline_claim (
	subdomain VARCHAR NOT NULL, 
	stage VARCHAR NOT NULL, 
	claimed_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	attempts INTEGER DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_pipeline_claim PRIMARY KEY (subdomain), 
	CONSTRAINT fk_pipeline_claim_site FOREIGN KEY(subdomain) REFERENCES sites (subdomain) ON DELETE CASCADE
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'pipeline_claim', '0003') ON CONFLICT DO NOTHING$ddl$;
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
  IF NOT (to_regclass('pipestate_archive.pipeline_reconciliation') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipeline_reconciliation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_reconciliation') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipeline_reconciliation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipeline_reconciliation') AS wanted (t));
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

-- pipeline_reconciliation out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'pipeline_reconciliation';
  the_aside CONSTANT text := 'pipestate_archive.pipeline_reconciliation';
  the_name CONSTANT text := 'pipeline_reconciliation';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''pipeline_reconciliation'', ''0003'') ON CONFLICT DO NOTHING';
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

-- create pipeline_reconciliation
DO $pipestate$
BEGIN
IF to_regclass('pipeline_reconciliation') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipeline_reconciliation (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	started_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	finished_at TIMESTAMP WITH TIME ZONE, 
	triggered_by VARCHAR(20) NOT NULL, 
	actor VARCHAR NOT NULL, 
	revision VARCHAR(32), 
	found INTEGER DEFAULT 0 NOT NULL, 
	recovered INTEGER DEFAULT 0 NOT NULL, 
	skipped INTEGER DEFAULT 0 NOT NULL, 
	failed INTEGER DEFAULT 0 NOT NULL, 
	details JSONB, 
	CONSTRAINT pk_pipeline_reconciliation PRIMARY KEY (id), 
	CONSTRAINT ck_pipeline_reconciliation_triggered_by CHECK (triggered_by IN ('cron', 'manual'))
)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_pipeline_reconciliation_started_at ON pipeline_reconciliation (started_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'pipeline_reconciliation', '0003') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('index', 'idx_pipeline_reconciliation_started_at', '0003') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

COMMENT ON COLUMN sites.current_stage IS 'fetch, ocr, compilation, extraction, deploy or completed';

COMMENT ON COLUMN sites.coordinator_enqueued IS 'Claimed by the job that finishes a stage, so that only one coordinator starts';

UPDATE pipestate_alembic_version SET version_num='0003' WHERE pipestate_alembic_version.version_num = '0002';

COMMIT;

