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

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0007' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0007, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- what was said about sites
DO $pipestate$
DECLARE
  before text;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    SELECT definition ->> 'comment' INTO before FROM pipestate_archive.manifest WHERE kind = 'comment' AND name = 'sites' AND revision = '0007';
    DELETE FROM pipestate_archive.manifest WHERE kind = 'comment' AND name = 'sites' AND revision = '0007';
  END IF;
  IF obj_description(to_regclass('sites'), 'pg_class') = 'Sites and the one account of their pipeline state: current_stage, counters, last error' THEN
    EXECUTE format('COMMENT ON TABLE sites IS %L', before);
  END IF;
END $pipestate$;

\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

-- the archive of the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites must be there
DO $pipestate$
DECLARE
  the_kind CONSTANT text := 'columns';
  the_what CONSTANT text := 'the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites';
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_aside CONSTANT text := 'pipestate_archive.sites_columns_0007';
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

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
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
  IF NOT (to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
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

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites come back, empty at first
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  the_changed_at CONSTANT text := 'updated_at';
  the_derived CONSTANT jsonb := jsonb_build_object('status', $sql$CASE WHEN (s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')) THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE a.status END$sql$,
    'extraction_status', $sql$CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total AND s.extraction_completed = 0 THEN 'failed'
  WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN 'completed'
  ELSE coalesce(a.extraction_status, 'pending') END$sql$,
    'last_updated', $sql$coalesce(to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), a.last_updated)$sql$,
    'last_deployed', $sql$CASE WHEN s.current_stage = 'completed' AND NOT coalesce((s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%')), false) THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE a.last_deployed END$sql$,
    'last_extracted', $sql$CASE WHEN s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total THEN to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ELSE a.last_extracted END$sql$);
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  path text := current_setting('search_path');
  entry jsonb;
  wanted jsonb;
  columns text[];
  unfit text[];
  missing text[];
  there jsonb;  -- the columns that are there: the table and the number of each
  todo text;
  key text[];
  file oid;
  keys text;
  empty text;
  fresh text;
  changed text;
  expressions text;
  archived text;
BEGIN
PERFORM set_config('pipestate.work', '', false);
  IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition, definition -> 'columns' INTO entry, wanted FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF wanted IS NULL THEN RETURN; END IF;
  columns := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(wanted) WITH ORDINALITY AS x (c, n) ORDER BY n);

  PERFORM set_config('search_path', '', true);  -- types in full, as the manifest has them
  unfit := ARRAY(
    SELECT t.attname FROM jsonb_array_elements(wanted) AS x (c)
      JOIN pg_attribute t ON t.attrelid = relation AND t.attname = c ->> 'name' AND NOT t.attisdropped
      JOIN pg_attribute o ON o.attrelid = copy AND o.attname = t.attname AND NOT o.attisdropped
     WHERE t.attgenerated <> '' OR ROW(t.atttypid, t.atttypmod) <> ROW(o.atttypid, o.atttypmod)
       AND format_type(t.atttypid, t.atttypmod) <> regexp_replace(c ->> 'type', ' COLLATE .*', ''));
  PERFORM set_config('search_path', path, true);
  IF unfit <> '{}' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%1$s has %2$s again, of another type or computed, so the archived values in %3$s do not fit: '
      'ALTER TABLE %1$s %4$s, or rename it, then run the same again', the_table, array_to_string(unfit, ', '), the_copy,
      (SELECT string_agg(format('DROP COLUMN %I', name), ', ') FROM unnest(unfit) AS name));
  END IF;

  SELECT coalesce(jsonb_object_agg(attname, format('%s/%s', attrelid::oid, attnum)), '{}') INTO there
    FROM pg_attribute WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped;
  IF there <> entry -> 'returning' THEN
    -- These are not the columns that an earlier run has filled: what it marked as back is not.
    EXECUTE format('ALTER TABLE %s DROP COLUMN pipestate_returned, ADD COLUMN pipestate_returned boolean', copy);
    FOR todo IN SELECT 'pipestate_not_null_' || (c ->> 'number') FROM jsonb_array_elements(wanted) AS x (c) LOOP
      EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', relation, todo);
    END LOOP;
    entry := entry - 'filled';
  END IF;

  file := (SELECT relfilenode FROM pg_class WHERE oid = relation);
  missing := ARRAY(SELECT unnest(columns) EXCEPT SELECT attname::text FROM pg_attribute
                   WHERE attrelid = relation AND NOT attisdropped);
  IF missing <> '{}' THEN
    SELECT string_agg(format('ADD COLUMN %I %s', c ->> 'name', c ->> 'type'), ', ' ORDER BY n) INTO todo
      FROM jsonb_array_elements(wanted) WITH ORDINALITY AS x (c, n) WHERE c ->> 'name' = ANY (missing);
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
    IF file <> (SELECT relfilenode FROM pg_class WHERE oid = relation)
        OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attname = ANY (missing) AND atthasmissing) THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'the columns of %s came back with values of their own, so the archived ones could not be told from them: '
        'nothing was changed', the_table);
    END IF;
    SELECT string_agg(format('ALTER COLUMN %I %s', c ->> 'name', setting), ', ') INTO todo
      FROM jsonb_array_elements(wanted) AS x (c)
      CROSS JOIN LATERAL (SELECT jsonb_array_elements_text(c -> 'settings')
                          UNION ALL SELECT 'SET DEFAULT ' || (c ->> 'default') WHERE c ->> 'default' IS NOT NULL)
        AS s (setting) WHERE c ->> 'name' = ANY (missing);
    IF todo IS NOT NULL THEN EXECUTE format('ALTER TABLE %s %s', relation, todo); END IF;
  END IF;
  SELECT coalesce(jsonb_object_agg(attname, format('%s/%s', attrelid::oid, attnum)), '{}') INTO there
    FROM pg_attribute WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped;
  entry := entry || jsonb_build_object('returning', there, 'added', coalesce(
    (SELECT jsonb_object_agg(each.key, each.value) FROM jsonb_each(there) AS each
      WHERE each.key = ANY (missing) OR entry -> 'added' -> each.key = each.value), '{}'));
  UPDATE pipestate_archive.manifest SET definition = entry
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;

  -- In a run that was ended here, after the values were proven to be back: they are not to be touched again.
  IF entry ? 'filled' THEN RETURN; END IF;

  key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
               JOIN pg_attribute a ON a.attrelid = copy AND a.attnum = k.attnum
               WHERE indrelid = copy AND indisprimary ORDER BY n);
  keys := (SELECT string_agg(format('{t}.%I', name), ', ') FROM unnest(key) AS name);
  empty := (SELECT string_agg(format('{t}.%I IS NULL', name), ' {and} ') FROM unnest(columns) AS name);
  fresh := format('o.%I IS NULL', key[1]);
  changed := CASE WHEN the_changed_at IS NULL THEN 'false'
                  ELSE format('s.%I::text IS DISTINCT FROM o.pipestate_changed_at::text', the_changed_at) END;
  archived := (SELECT string_agg(format('o.%1$I::text AS %1$I', attname), ', ') FROM pg_attribute
               WHERE attrelid = copy AND attnum > 0 AND NOT attisdropped);
  -- A text that an enum does not have becomes NULL.
  SELECT string_agg(format('CASE WHEN NOT (s.%5$I IS NULL) AND o.pipestate_returned IS NOT FALSE THEN s.%5$I '
                           'WHEN %1$s THEN coalesce(%2$s, %3$s) WHEN %4$s THEN coalesce(%2$s, o.%5$I) '
                           'ELSE o.%5$I END AS %5$I', fresh, coalesce(expression, 'NULL::' || format_type(atttypid, -1)),
                           coalesce(pg_get_expr(adbin, adrelid), 'NULL'), changed, attname), ', ' ORDER BY attnum)
    INTO expressions
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum JOIN pg_type t ON t.oid = atttypid
    CROSS JOIN LATERAL (SELECT format(
        CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                     'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
             ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)
        WHERE the_derived ? attname UNION ALL SELECT NULL WHERE NOT the_derived ? attname) AS d (expression)
   WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped;
  -- Of several columns somebody may write one in between: so the rows are locked first.
  PERFORM set_config('pipestate.work', format(
    'WITH wanted AS MATERIALIZED (SELECT %1$s, %2$s, (%3$s) OR (%4$s) AS pipestate_derived, '
    'o.pipestate_returned IS FALSE AS pipestate_again '
    'FROM %5$s s LEFT JOIN %6$s o ON ROW(%1$s) = ROW(%7$s) CROSS JOIN LATERAL (SELECT %8$s) a '
    'WHERE {range s} AND o.pipestate_returned IS NOT TRUE AND (o.pipestate_returned IS FALSE '
    'OR CASE WHEN %3$s THEN %9$s ELSE %10$s END)%17$s), '
    'back AS (UPDATE %5$s AS t SET %11$s FROM wanted w WHERE ROW(%12$s) = ROW(%13$s) AND (w.pipestate_again OR %18$s) '
    'RETURNING %12$s, w.pipestate_derived OR ROW(%14$s)::record *= ROW(%15$s)::record AS pipestate_returned) '
    'UPDATE %6$s o SET pipestate_returned = b.pipestate_returned FROM back b WHERE ROW(%7$s) = ROW(%16$s)',
    replace(keys, '{t}', 's'), expressions, fresh, changed, relation, copy, replace(keys, '{t}', 'o'), archived,
    replace(replace(empty, '{and}', 'AND'), '{t}', 's'), replace(replace(empty, '{and}', 'OR'), '{t}', 's'),
    (SELECT string_agg(format('%1$I = w.%1$I', name), ', ') FROM unnest(columns) AS name),
    replace(keys, '{t}', 't'), replace(keys, '{t}', 'w'),
    (SELECT string_agg(format('t.%I', attname), ', ' ORDER BY attnum) FROM pg_attribute
      WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped),
    (SELECT string_agg(format('w.%I::%s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
       FROM pg_attribute WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped),
    replace(keys, '{t}', 'b'), CASE WHEN cardinality(columns) > 1 THEN ' FOR NO KEY UPDATE OF s' ELSE '' END,
    replace(replace(empty, '{and}', 'OR'), '{t}', 't')), false);
END $pipestate$;

SELECT set_config('pipestate.part', '0007/1', false);

COMMIT;

-- sites: 100 rows at a time, each batch committed
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_key CONSTANT text[] := ARRAY['subdomain']::text[];
  the_size CONSTANT integer := 100;
  at_once CONSTANT boolean := false;
  quiet CONSTANT boolean := true;
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/1' THEN
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
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/1' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;

END $pipestate$;

SELECT set_config('pipestate.part', '0007/2', false);

COMMIT;

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: the proof that every value is back
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  the_changed_at CONSTANT text := 'updated_at';
  force_record CONSTANT text := NULL;
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  hanging jsonb;
  key text[];
  columns text[];
  foreign_columns text[];
  same text;
  lost bigint;
  said text;
  rule jsonb;
  broken boolean;
  duplicated text[] := '{}';
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/2' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
PERFORM set_config('pipestate.duplicated', '{}', false);
  IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL THEN RETURN; END IF;

  columns := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(hanging -> 'columns') AS x (c));
  key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
               JOIN pg_attribute a ON a.attrelid = copy AND a.attnum = k.attnum
               WHERE indrelid = copy AND indisprimary ORDER BY n);
  same := format('ROW(%s) = ROW(%s)', (SELECT string_agg(format('t.%I', name), ', ') FROM unnest(key) AS name),
                 (SELECT string_agg(format('o.%I', name), ', ') FROM unnest(key) AS name));
  IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = copy
                 AND pg_get_expr(indpred, indrelid) LIKE '%pipestate_returned%') THEN
    EXECUTE format('CREATE INDEX ON %s (pipestate_returned) WHERE pipestate_returned IS NOT TRUE', copy);
    EXECUTE format('ANALYZE %s', copy);
  END IF;
  -- Rows that got something else than their archived values, or nothing.
  EXECUTE format('SELECT count(*) FROM %1$s t JOIN %2$s o ON %3$s WHERE o.pipestate_returned IS NOT TRUE '
                 'AND (o.pipestate_returned IS FALSE OR %4$s)', relation, copy, same,
                 (SELECT string_agg(format('t.%1$I IS NULL AND NOT (o.%1$I IS NULL)', name), ' OR ')
                    FROM unnest(columns) AS name))
    INTO lost;
  IF lost > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s rows of %s did not get their archived values back, so %s stays: nothing is lost. Something changes them '
      'as they are written (a trigger, a rule): disable it, then run the same again', lost, the_table, the_copy);
  END IF;
  foreign_columns := ARRAY(SELECT attname FROM pg_attribute
                           WHERE attrelid = relation AND attname = ANY (columns) AND NOT attisdropped
                             AND hanging -> 'added' ->> attname IS DISTINCT FROM format('%s/%s', attrelid::oid, attnum));
  IF foreign_columns <> '{}' THEN
    EXECUTE format('SELECT count(*) FROM %1$s t JOIN %2$s o ON %3$s WHERE o.pipestate_returned IS NOT TRUE '
                   'AND NOT (%4$s) AND ROW(%5$s)::record *<> ROW(%6$s)::record', relation, copy, same,
                   CASE WHEN the_changed_at IS NULL THEN 'false'
                        ELSE format('t.%I::text IS DISTINCT FROM o.pipestate_changed_at::text', the_changed_at) END,
                   (SELECT string_agg(format('t.%I', name), ', ') FROM unnest(foreign_columns) AS name),
                   (SELECT string_agg(format('o.%I::%s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY n)
                      FROM unnest(foreign_columns) WITH ORDINALITY AS f (name, n)
                      JOIN pg_attribute ON attrelid = relation AND attname = name AND NOT attisdropped))
      INTO lost;
  END IF;
  IF lost > 0 THEN
    said := format('something else than what was archived stands in %s, which somebody has added again, in %s of %s',
                   array_to_string(foreign_columns, ', '), CASE lost WHEN 1 THEN 'one row' ELSE lost || ' rows' END,
                   the_table);
    IF force_record IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s, so %s stays: nothing is lost. To have the archived values: ALTER TABLE %s %s, or rename it, then run the '
        'same again. To keep what is there instead: alembic -x force=''reason'' downgrade ...', said, the_copy, the_table,
        (SELECT string_agg(format('DROP COLUMN %I', name), ', ') FROM unnest(foreign_columns) AS name));
    END IF;
    EXECUTE force_record;
    PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''),
      said || ', and this was forced: it stays'), false);
  END IF;

  EXECUTE format('SELECT count(*) FROM %2$s o WHERE pipestate_returned IS NOT TRUE '
                 'AND NOT EXISTS (SELECT FROM %1$s t WHERE %3$s)', relation, copy, same) INTO lost;
  IF lost > 0 THEN
    said := format('nothing takes the archived values of %s of %s: deleted since, or under another key by now',
                   CASE lost WHEN 1 THEN 'one row' ELSE lost || ' rows' END, the_table);
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s t JOIN %s o ON %s)', relation, copy, same) INTO broken;
    IF broken AND force_record IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s. No other row takes one, so %s stays: is this another table of that name? Rename it, or fix its keys, then '
        'run the same again. To go on without them: alembic -x force=''reason'' downgrade ...', said, the_copy);
    ELSIF broken THEN
      EXECUTE force_record;
    END IF;
    RAISE WARNING '%', said;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), said), false);
  END IF;
  EXECUTE format('UPDATE %s SET pipestate_returned = true WHERE pipestate_returned IS NOT TRUE', copy);

  FOR rule IN SELECT jsonb_array_elements(hanging -> 'constraints') LOOP
    CONTINUE WHEN rule ->> 'kind' NOT IN ('u', 'p')
      OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name');
    EXECUTE (SELECT format('SELECT EXISTS (SELECT FROM %s WHERE %s GROUP BY %s HAVING count(*) > 1)', relation,
                           CASE WHEN rule ->> 'definition' LIKE '%NULLS NOT DISTINCT%' THEN 'true'
                                ELSE string_agg(format('%I IS NOT NULL', name), ' AND ') END,
                           string_agg(format('%I', name), ', '))
               FROM jsonb_array_elements_text(rule -> 'columns') AS name) INTO broken;
    IF broken THEN duplicated := duplicated || (rule ->> 'name'); END IF;
  END LOOP;
  PERFORM set_config('pipestate.duplicated', duplicated::text, false);
END $pipestate$;

SELECT 'DROP INDEX CONCURRENTLY ' || (i ->> 'name') FROM pipestate_archive.manifest, jsonb_array_elements(definition -> 'indexes') AS i WHERE kind = 'columns' AND name = 'sites' AND revision = '0007' AND (i ->> 'constraint' IS NULL OR (i ->> 'unique')::boolean AND i ->> 'constraint' <> ALL (current_setting('pipestate.duplicated')::text[])) AND to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(i ->> 'name') AND NOT indisvalid)
  AND current_setting('pipestate.part', true) = '0007/2' \gexec

SELECT regexp_replace(i ->> 'definition', '^CREATE (UNIQUE )?INDEX ', 'CREATE \1INDEX CONCURRENTLY ') FROM pipestate_archive.manifest, jsonb_array_elements(definition -> 'indexes') AS i WHERE kind = 'columns' AND name = 'sites' AND revision = '0007' AND (i ->> 'constraint' IS NULL OR (i ->> 'unique')::boolean AND i ->> 'constraint' <> ALL (current_setting('pipestate.duplicated')::text[])) AND to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL AND to_regclass(i ->> 'name') IS NULL
  AND current_setting('pipestate.part', true) = '0007/2' \gexec

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (NOT (to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) OR NOT EXISTS (SELECT FROM pipestate_archive.manifest, jsonb_array_elements(definition -> 'indexes') AS i WHERE kind = 'columns' AND name = 'sites' AND revision = '0007' AND (i ->> 'constraint' IS NULL OR (i ->> 'unique')::boolean AND i ->> 'constraint' <> ALL (current_setting('pipestate.duplicated')::text[])) AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(i ->> 'name') AND indisvalid)));

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/2' THEN
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
  IF NOT (to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL AND EXISTS (SELECT FROM pipestate_archive.manifest, jsonb_array_elements((definition -> 'constraints') || (definition -> 'columns')) AS each WHERE kind = 'columns' AND name = 'sites' AND revision = '0007' AND NOT definition ? 'filled' AND (each ->> 'kind' IN ('c', 'f', 'n') OR each @> '{"not_null": true}' OR each ->> 'domain' <> ''))) THEN RETURN; END IF;
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

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: what hung on them, not validated yet
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  relation regclass := to_regclass(the_table);
  hanging jsonb;
  rule jsonb;
  line text;
  said text[];
  planner text := current_setting('enable_seqscan');
  lost boolean;
BEGIN
IF to_regclass(the_copy) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL OR hanging ? 'filled' THEN RETURN; END IF;
  PERFORM set_config('enable_seqscan', 'off', true);  -- an index has what is not back
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE pipestate_returned IS NOT TRUE)', the_copy) INTO lost;
  PERFORM set_config('enable_seqscan', planner, true);
  IF lost THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'rows of %s did not get their archived values back, so %s stays: nothing is lost. Run the same again',
      the_table, the_copy);
  END IF;

  FOR rule IN SELECT jsonb_array_elements(hanging -> 'columns') LOOP
    IF rule ->> 'domain' IS NOT NULL THEN
      BEGIN
        EXECUTE format('ALTER TABLE %1$s ALTER COLUMN %2$I DROP DEFAULT, ALTER COLUMN %2$I TYPE %3$s',
                       relation, rule ->> 'name', rule ->> 'domain');
        IF rule ->> 'default' IS NOT NULL THEN
          EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
                         relation, rule ->> 'name', rule ->> 'default');
        END IF;
      EXCEPTION WHEN integrity_constraint_violation THEN
        said := said || format('%s.%s stays %s: rows written since do not fit into %s',
                               the_table, rule ->> 'name', rule ->> 'type', rule ->> 'domain');
      END;
    END IF;
    IF (rule ->> 'not_null')::boolean AND NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = relation AND conname = 'pipestate_not_null_' || (rule ->> 'number')) THEN
      EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL) NOT VALID',
                     relation, 'pipestate_not_null_' || (rule ->> 'number'), rule ->> 'name');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'constraints') LOOP
    CONTINUE WHEN rule ->> 'kind' NOT IN ('c', 'f', 'n')
      OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name');
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', relation, rule ->> 'name', rule ->> 'definition',
                   CASE WHEN (rule ->> 'validated')::boolean THEN ' NOT VALID' ELSE '' END);
  END LOOP;
  UPDATE pipestate_archive.manifest SET definition = definition || '{"filled": true}'
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;

  FOREACH line IN ARRAY coalesce(said, '{}') LOOP
    RAISE WARNING '%', line;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
  END LOOP;
END $pipestate$;

SELECT set_config('pipestate.part', '0007/3', false);

COMMIT;

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: validate it, while writers go on
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  relation regclass := to_regclass(the_table);
  rule jsonb;
  line text;
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/3' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('an earlier step of this revision failed, so this one does nothing: see above');
END IF;
PERFORM set_config('pipestate.validated', '', false);
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    FOR rule IN SELECT each FROM pipestate_archive.manifest
                  CROSS JOIN jsonb_array_elements((definition -> 'constraints') || (definition -> 'columns')) AS each
                 WHERE kind = 'columns' AND name = the_name AND revision = the_revision LOOP
      line := coalesce('pipestate_not_null_' || (rule ->> 'number'), rule ->> 'name');
      CONTINUE WHEN NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = line
                                AND contype IN ('c', 'f', 'n') AND NOT convalidated)
        OR NOT coalesce((rule ->> 'validated')::boolean, true);
      BEGIN
        EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, line);
      EXCEPTION WHEN integrity_constraint_violation THEN
        CONTINUE WHEN rule ? 'number';  -- said when the column stays nullable
        line := format('constraint %1$s of %2$s stays NOT VALID: rows written since break it (%3$s). Fix those, then '
                       'ALTER TABLE %2$s VALIDATE CONSTRAINT %1$I', line, the_table, rule ->> 'definition');
        RAISE WARNING '%', line;
        PERFORM set_config('pipestate.said',
                           concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
      END;
    END LOOP;
  END IF;
  PERFORM set_config('pipestate.validated', the_name || '/' || the_revision, false);
END $pipestate$;

SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT (current_setting('pipestate.validated', true) = 'sites/0007');

BEGIN;

DO $pipestate$
BEGIN
IF current_setting('pipestate.part', true) IS DISTINCT FROM '0007/3' THEN
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
  IF NOT (to_regclass('pipestate_archive.sites_columns_0007') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
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

-- the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: what is left to hang on them, and the end of the copy
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_name CONSTANT text := 'sites';
  the_revision CONSTANT text := '0007';
  the_copy CONSTANT text := 'pipestate_archive.sites_columns_0007';
  prepared CONSTANT boolean := true;
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  duplicated text[] := coalesce(nullif(current_setting('pipestate.duplicated', true), ''), '{}');
  planner text := current_setting('enable_seqscan');
  hanging jsonb;
  lost boolean;
  rule jsonb;
  line text;
  said text[];
BEGIN
IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL THEN RETURN; END IF;

  PERFORM set_config('enable_seqscan', 'off', true);  -- an index has what is not back
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE pipestate_returned IS NOT TRUE)', copy) INTO lost;
  PERFORM set_config('enable_seqscan', planner, true);
  IF lost THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'rows of %s did not get their archived values back, so %s stays: nothing is lost. Run the same again',
      the_table, the_copy);
  END IF;

  FOR rule IN SELECT jsonb_array_elements(hanging -> 'columns') LOOP
    line := 'pipestate_not_null_' || (rule ->> 'number');
    IF (rule ->> 'not_null')::boolean THEN
      IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = line AND convalidated) THEN
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', relation, rule ->> 'name');
      ELSE
        said := said || format('%s.%s stays nullable: rows written since have no value for it',
                               the_table, rule ->> 'name');
      END IF;
      EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', relation, line);
    END IF;
    -- One that somebody else has added has kept its own default until now.
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I %s', relation, rule ->> 'name',
                   coalesce('SET DEFAULT ' || (rule ->> 'default'), 'DROP DEFAULT'));
    FOR line IN SELECT jsonb_array_elements_text(rule -> 'settings') LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I %s', relation, rule ->> 'name', line);
    END LOOP;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', relation, rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'sequences') LOOP
    IF to_regclass(rule ->> 'name') IS NOT NULL THEN
      EXECUTE format('ALTER SEQUENCE %s OWNED BY %s.%I', rule ->> 'name', relation, rule ->> 'column');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'constraints') LOOP
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name') THEN
      BEGIN
        line := (SELECT i ->> 'name' FROM jsonb_array_elements(hanging -> 'indexes') AS i
                  WHERE prepared AND i ->> 'constraint' = rule ->> 'name' AND to_regclass(i ->> 'name') IS NOT NULL);
        IF rule ->> 'name' = ANY (duplicated) THEN
          RAISE unique_violation;
        END IF;
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, rule ->> 'name',
          CASE WHEN line IS NULL THEN rule ->> 'definition'
               ELSE concat_ws(' ', CASE rule ->> 'kind' WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END,
                              'USING INDEX', (SELECT quote_ident(relname) FROM pg_class WHERE oid = to_regclass(line)),
                              substring(rule ->> 'definition' FROM ' (DEFERRABLE.*)$')) END);
      EXCEPTION WHEN integrity_constraint_violation THEN
        said := said || format('constraint %s of %s did not come back: rows written since break it. It was: %s',
                               rule ->> 'name', the_table, rule ->> 'definition');
        CONTINUE;
      END;
    END IF;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', relation, rule ->> 'comment');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'indexes') LOOP
    IF rule ->> 'comment' IS NOT NULL AND to_regclass(rule ->> 'name') IS NOT NULL THEN
      EXECUTE format('COMMENT ON INDEX %s IS %L', rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR line IN SELECT jsonb_array_elements_text(hanging -> 'marks') LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s %s', relation, line);
    EXCEPTION WHEN undefined_object OR object_not_in_prerequisite_state OR wrong_object_type THEN
      said := said || format('%s has lost its mark: ALTER TABLE %1$s %s failed (%s)', the_table, line, SQLERRM);
    END;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'statistics') LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_statistic_ext
                          WHERE format('%s.%I', stxnamespace::regnamespace, stxname) = rule ->> 'name');
    EXECUTE rule ->> 'definition';
    IF rule ->> 'target' IS NOT NULL THEN
      EXECUTE format('ALTER STATISTICS %s SET STATISTICS %s', rule ->> 'name', rule ->> 'target');
    END IF;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON STATISTICS %s IS %L', rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR line IN SELECT jsonb_array_elements_text(hanging -> 'grants') LOOP
    BEGIN
      EXECUTE line;
    EXCEPTION WHEN undefined_object THEN
      said := said || format('not granted again, the role is gone: %s', line);
    END;
  END LOOP;
  EXECUTE format('DROP TABLE %s', copy);
  DELETE FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = the_name AND revision = the_revision;

  FOREACH line IN ARRAY coalesce(said, '{}') LOOP
    RAISE WARNING '%', line;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
  END LOOP;
END $pipestate$;

DO $pipestate$
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  IF EXISTS (SELECT FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites' AND revision = '0007' AND to_regclass(aside) IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the columns status, extraction_status, last_updated, last_deployed, last_extracted of sites: not back, and still in the archive. See what went wrong above, then run the same again');
  END IF;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = 'sites' AND revision = '0007';
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0007';

COMMIT;

