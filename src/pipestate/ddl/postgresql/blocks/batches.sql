-- Run the statement in pipestate.work once for each range of keys, each in a transaction of its own; or once for
-- all, in this one. In it, {range} selects the batch's rows of the table, {range s} those of its alias s.
--
-- the_table text, the_key text[] (empty: the primary key), the_size integer, at_once boolean,
-- quiet boolean (the application's triggers do not fire, where the role may ask for that),
-- by_key boolean (whatever the statement joins has an index on the key)
DECLARE
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
END
