-- Write the statements that bring an archived table up to date, before it returns, from what replaced it: of rows s
-- of the source that changed since, what the derived expressions say (NULL: the archived value stays), and a row for
-- each that it does not know. Leaves one of the two in pipestate.work.
--
-- the_aside text, the_key text[] (empty: the primary key), the_source text, the_where text, the_baseline text
-- (NULL: no row counts as changed), the_changed_at text, the_derived jsonb, insert_missing boolean
DECLARE
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
END
