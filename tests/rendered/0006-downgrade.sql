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

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0006' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0006, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
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
  IF NOT (EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('sites') AND tgname = 'pipestate_keep_inserted_0007')) THEN RETURN; END IF;
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

-- sites: an archive that was begun and given up
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  the_keep CONSTANT text := 'pipestate_archive.keep_sites_columns_0007';
  the_inserted CONSTANT text := 'pipestate_keep_inserted_0007';
  the_updated CONSTANT text := 'pipestate_keep_updated_0007';
  relation regclass := to_regclass(the_table);
BEGIN
IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation AND tgname = the_inserted) THEN RETURN; END IF;
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_inserted, relation);
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_updated, relation);
  EXECUTE format('DROP FUNCTION IF EXISTS %s()', the_keep);
  EXECUTE format('DROP TABLE IF EXISTS %s', the_copy);
END $pipestate$;

\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

-- the archive of site_progress must be there
DO $pipestate$
DECLARE
  the_kind CONSTANT text := 'table';
  the_what CONSTANT text := 'site_progress';
  the_table CONSTANT text := 'site_progress';
  the_name CONSTANT text := 'site_progress';
  the_revision CONSTANT text := '';
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  force_record CONSTANT text := NULL;
  known boolean;
  held boolean;
  from_schema text;
  fault text := 'the archive of %s is gone (purged?)';
BEGIN
IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    -- a table is in the archive, or was brought back by a run that was killed then
    SELECT definition ? 'absent' OR to_regclass(the_aside) IS NOT NULL
           OR definition ? 'back' AND to_regclass(the_table) IS NOT NULL,
           (definition ->> 'held')::boolean AND to_regclass(the_aside) IS NOT NULL, origin
      INTO known, held, from_schema
      FROM pipestate_archive.manifest WHERE kind = the_kind AND name = the_name AND revision = the_revision;
  END IF;
  IF the_kind = 'columns' AND to_regclass(the_aside) IS NOT NULL AND to_regclass(the_table) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s does not exist under that name, so nothing takes %s back, which stay in %s: rename it, or move it back into '
      'its schema, then run the same again', the_table, the_what, the_aside);
  END IF;
  IF to_regclass(the_aside) IS NOT NULL AND (
      the_kind = 'columns' AND (SELECT to_regclass(format('%s.%I', from_schema, relname)) <> oid
                                  FROM pg_class WHERE oid = to_regclass(the_table))
      OR the_kind = 'table' AND the_name NOT LIKE '%.%' AND to_regnamespace(from_schema) <> ALL (
           ARRAY(SELECT to_regnamespace(quote_ident(name)) FROM unnest(current_schemas(false)) AS name))) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'what is archived of %s is from the schema %s, and here that name means another table: set search_path, then '
      'run the same again', the_name, from_schema);
  END IF;
  IF held THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', the_aside) INTO known;
    fault := 'every row in the archive of %s is gone (a dump without its data?)';
  END IF;
  IF known IS TRUE THEN RETURN; END IF;
  IF force_record IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      fault || ', so this downgrade cannot bring it back. To go on without it, with what '
      'can be derived: alembic -x force=''reason'' downgrade ...', the_what);
  END IF;
  EXECUTE force_record;
  PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''),
    format(fault || ', and this was forced: what it held does not come back', the_what)), false);
END $pipestate$;

-- site_progress: rows that changed since
DO $pipestate$
DECLARE
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_source CONSTANT text := 'sites';
  the_where CONSTANT text := 's.current_stage IS NOT NULL';
  the_baseline CONSTANT text := 'pipestate_archive.site_progress_before_0006';
  the_changed_at CONSTANT text := 'updated_at';
  the_derived CONSTANT jsonb := jsonb_build_object('current_stage', $sql$s.current_stage$sql$,
    'stage_total', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_total WHEN 'ocr' THEN s.ocr_total
  WHEN 'compilation' THEN s.compilation_total WHEN 'extraction' THEN s.extraction_total
  WHEN 'deploy' THEN s.deploy_total ELSE 1 END$sql$,
    'stage_completed', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_completed WHEN 'ocr' THEN s.ocr_completed
  WHEN 'compilation' THEN s.compilation_completed WHEN 'extraction' THEN s.extraction_completed
  WHEN 'deploy' THEN s.deploy_completed ELSE 1 END$sql$,
    'started_at', $sql$s.started_at$sql$,
    'updated_at', $sql$s.updated_at$sql$);
  insert_missing CONSTANT boolean := false;
  relation regclass := to_regclass(the_aside);
  key text[] := the_key;
  same text;
  missing text;
BEGIN
PERFORM set_config('pipestate.work', '', false);
  IF relation IS NULL THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  same := (SELECT string_agg(format('s.%1$I = t.%1$I', name), ' AND ') FROM unnest(key) AS name);
  IF NOT insert_missing THEN
    IF the_baseline IS NULL OR to_regclass(the_baseline) IS NULL THEN RETURN; END IF;
    PERFORM set_config('pipestate.work', format(
      'UPDATE %s AS t SET %s FROM %s s LEFT JOIN %s b USING (%s) WHERE {range s} AND (%s) AND %s '
      'AND s.%I::text IS DISTINCT FROM b.pipestate_changed_at::text', relation,
      (SELECT string_agg(format('%1$I = coalesce(%2$s, t.%1$I)', attname, expression), ', ' ORDER BY attnum)
         FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid CROSS JOIN LATERAL (SELECT format(
             CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                          'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
                  ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)) AS d (expression)
        WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped),
      the_source, the_baseline, (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name), the_where,
      same, the_changed_at), false);
    RETURN;
  END IF;
  -- Columns of the application's own that must have a value: then a new row cannot be made up.
  SELECT string_agg(attname, ', ') INTO missing FROM pg_attribute
   WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef
     AND attidentity = '' AND attname <> ALL (key) AND NOT the_derived ? attname;
  IF missing IS NOT NULL THEN
    missing := format('rows of %s that came since have none in %s: nothing says what its %s would be',
                      the_source, the_aside, missing);
    RAISE WARNING '%', missing;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), missing), false);
    RETURN;
  END IF;
  SELECT format('INSERT INTO %1$s (%2$s, %3$s) SELECT %4$s, %5$s FROM %6$s s WHERE {range s} AND (%7$s) '
                'AND NOT EXISTS (SELECT FROM %1$s t WHERE %8$s) ON CONFLICT DO NOTHING', relation,
                (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name),
                string_agg(format('%I', attname), ', ' ORDER BY attnum),
                (SELECT string_agg(format('s.%I', name), ', ') FROM unnest(key) AS name),
                string_agg(expression, ', ' ORDER BY attnum), the_source, the_where, same)
    INTO missing
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid CROSS JOIN LATERAL (SELECT format(
        CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                     'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
             ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)) AS d (expression)
   WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped;
  PERFORM set_config('pipestate.work', missing, false);
END $pipestate$;

SELECT set_config('pipestate.part', '0006/1', false);

COMMIT;

-- sites: 2000 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_size CONSTANT integer := 2000;
  at_once CONSTANT boolean := false;
  quiet CONSTANT boolean := false;
  by_key CONSTANT boolean := true;
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

-- site_progress: rows that came since
DO $pipestate$
DECLARE
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_source CONSTANT text := 'sites';
  the_where CONSTANT text := 's.current_stage IS NOT NULL';
  the_baseline CONSTANT text := 'pipestate_archive.site_progress_before_0006';
  the_changed_at CONSTANT text := 'updated_at';
  the_derived CONSTANT jsonb := jsonb_build_object('current_stage', $sql$s.current_stage$sql$,
    'stage_total', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_total WHEN 'ocr' THEN s.ocr_total
  WHEN 'compilation' THEN s.compilation_total WHEN 'extraction' THEN s.extraction_total
  WHEN 'deploy' THEN s.deploy_total ELSE 1 END$sql$,
    'stage_completed', $sql$CASE s.current_stage WHEN 'fetch' THEN s.fetch_completed WHEN 'ocr' THEN s.ocr_completed
  WHEN 'compilation' THEN s.compilation_completed WHEN 'extraction' THEN s.extraction_completed
  WHEN 'deploy' THEN s.deploy_completed ELSE 1 END$sql$,
    'started_at', $sql$s.started_at$sql$,
    'updated_at', $sql$s.updated_at$sql$);
  insert_missing CONSTANT boolean := true;
  relation regclass := to_regclass(the_aside);
  key text[] := the_key;
  same text;
  missing text;
BEGIN
PERFORM set_config('pipestate.work', '', false);
  IF relation IS NULL THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  same := (SELECT string_agg(format('s.%1$I = t.%1$I', name), ' AND ') FROM unnest(key) AS name);
  IF NOT insert_missing THEN
    IF the_baseline IS NULL OR to_regclass(the_baseline) IS NULL THEN RETURN; END IF;
    PERFORM set_config('pipestate.work', format(
      'UPDATE %s AS t SET %s FROM %s s LEFT JOIN %s b USING (%s) WHERE {range s} AND (%s) AND %s '
      'AND s.%I::text IS DISTINCT FROM b.pipestate_changed_at::text', relation,
      (SELECT string_agg(format('%1$I = coalesce(%2$s, t.%1$I)', attname, expression), ', ' ORDER BY attnum)
         FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid CROSS JOIN LATERAL (SELECT format(
             CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                          'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
                  ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)) AS d (expression)
        WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped),
      the_source, the_baseline, (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name), the_where,
      same, the_changed_at), false);
    RETURN;
  END IF;
  -- Columns of the application's own that must have a value: then a new row cannot be made up.
  SELECT string_agg(attname, ', ') INTO missing FROM pg_attribute
   WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef
     AND attidentity = '' AND attname <> ALL (key) AND NOT the_derived ? attname;
  IF missing IS NOT NULL THEN
    missing := format('rows of %s that came since have none in %s: nothing says what its %s would be',
                      the_source, the_aside, missing);
    RAISE WARNING '%', missing;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), missing), false);
    RETURN;
  END IF;
  SELECT format('INSERT INTO %1$s (%2$s, %3$s) SELECT %4$s, %5$s FROM %6$s s WHERE {range s} AND (%7$s) '
                'AND NOT EXISTS (SELECT FROM %1$s t WHERE %8$s) ON CONFLICT DO NOTHING', relation,
                (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name),
                string_agg(format('%I', attname), ', ' ORDER BY attnum),
                (SELECT string_agg(format('s.%I', name), ', ') FROM unnest(key) AS name),
                string_agg(expression, ', ' ORDER BY attnum), the_source, the_where, same)
    INTO missing
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid CROSS JOIN LATERAL (SELECT format(
        CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                     'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
             ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)) AS d (expression)
   WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped;
  PERFORM set_config('pipestate.work', missing, false);
END $pipestate$;

SELECT set_config('pipestate.part', '0006/2', false);

COMMIT;

-- sites: 2000 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_size CONSTANT integer := 2000;
  at_once CONSTANT boolean := false;
  quiet CONSTANT boolean := false;
  by_key CONSTANT boolean := true;
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/2' THEN
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
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
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.site_progress') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress') AS wanted (t));
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

-- site_progress out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_name CONSTANT text := 'site_progress';
  forget CONSTANT boolean := false;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''site_progress'', ''0006'') ON CONFLICT DO NOTHING';
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

SELECT set_config('pipestate.part', '0006/3', false);

COMMIT;

-- the foreign keys of site_progress that were valid
DO $pipestate$
DECLARE
  the_name CONSTANT text := 'site_progress';
  entry record;
  back text;
  rule jsonb;
  said text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name
   AND definition ? 'back';
  IF NOT FOUND THEN RETURN; END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NULL THEN RETURN; END IF;
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    CONTINUE WHEN NOT (rule ->> 'validated')::boolean;
    BEGIN
      EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', back, rule ->> 'name');
    EXCEPTION WHEN foreign_key_violation THEN
      said := format('%s of %s stays NOT VALID: some of its rows point at rows that are gone. Delete or fix '
                     'those rows, then ALTER TABLE %s VALIDATE CONSTRAINT %I',
                     rule ->> 'name', the_name, back, rule ->> 'name');
      RAISE WARNING '%', said;
      PERFORM set_config('pipestate.said',
                         concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), said), false);
    END;
  END LOOP;
END $pipestate$;

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0006/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

DO $pipestate$
BEGIN
IF to_regclass('pipestate_archive.site_progress') IS NULL THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS pipestate_archive.site_progress_before_0006$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  IF EXISTS (SELECT FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress' AND revision = '' AND to_regclass(aside) IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress: not back, and still in the archive. See what went wrong above, then run the same again');
  END IF;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress' AND revision = '';
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0005' WHERE pipestate_alembic_version.version_num = '0006';

COMMIT;

