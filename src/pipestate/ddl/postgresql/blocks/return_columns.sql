-- Add archived columns again, NULL at first; a default serves the rows to come. Leaves in pipestate.work the
-- statement that brings back the values of one batch, and marks in the copy what is back. The caller holds the lock.
--
-- A row whose columns are still NULL gets them: its archived values; derived ones where it has changed since, that
-- is, where the_changed_at is not what it was; a derived value or the default where it is new. A row in which
-- somebody has written one of them since they came back is left alone.
--
-- the_table text, the_name text, the_revision text, the_copy text, the_changed_at text (NULL: none),
-- the_derived jsonb (column: an expression over the row s and its archived values a, as texts)
DECLARE
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  wanted jsonb;
  added text[];
  todo text;
  key text[];
  file oid;
  keys text;
  untouched text;
  fresh text;
  changed text;
  expressions text;
  archived text;
BEGIN
  PERFORM set_config('pipestate.work', '', false);
  IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition -> 'columns' INTO wanted FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF wanted IS NULL THEN RETURN; END IF;
  added := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(wanted) WITH ORDINALITY AS x (c, n) ORDER BY n);

  file := (SELECT relfilenode FROM pg_class WHERE oid = relation);
  SELECT string_agg(format('ADD COLUMN %I %s', c ->> 'name', c ->> 'type'), ', ' ORDER BY n) INTO todo
    FROM jsonb_array_elements(wanted) WITH ORDINALITY AS x (c, n)
   WHERE NOT EXISTS (SELECT FROM pg_attribute
                     WHERE attrelid = relation AND attname = c ->> 'name' AND NOT attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
    IF file <> (SELECT relfilenode FROM pg_class WHERE oid = relation)
        OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attname = ANY (added) AND atthasmissing) THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'the columns of %s came back with values of their own, so the archived ones could not be told from them: '
        'nothing was changed', the_table);
    END IF;
    SELECT string_agg(format('ALTER COLUMN %I %s', c ->> 'name', setting), ', ') INTO todo
      FROM jsonb_array_elements(wanted) AS x (c)
      CROSS JOIN LATERAL (SELECT jsonb_array_elements_text(c -> 'settings')
                          UNION ALL SELECT 'SET DEFAULT ' || (c ->> 'default') WHERE c ->> 'default' IS NOT NULL)
        AS s (setting);
    IF todo IS NOT NULL THEN EXECUTE format('ALTER TABLE %s %s', relation, todo); END IF;
  END IF;

  -- In a run that was ended here, after the values were proven to be back: they are not to be touched again.
  IF EXISTS (SELECT FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = the_name
             AND revision = the_revision AND definition ? 'filled') THEN RETURN; END IF;

  key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
               JOIN pg_attribute a ON a.attrelid = copy AND a.attnum = k.attnum
               WHERE indrelid = copy AND indisprimary ORDER BY n);
  keys := (SELECT string_agg(format('{t}.%I', name), ', ') FROM unnest(key) AS name);
  untouched := (SELECT string_agg(format('{t}.%I IS NULL', name), ' AND ') FROM unnest(added) AS name);
  fresh := format('o.%I IS NULL', key[1]);
  changed := CASE WHEN the_changed_at IS NULL THEN 'false'
                  ELSE format('s.%I::text IS DISTINCT FROM o.pipestate_changed_at::text', the_changed_at) END;
  archived := (SELECT string_agg(format('o.%1$I::text AS %1$I', attname), ', ') FROM pg_attribute
               WHERE attrelid = copy AND attnum > 0 AND NOT attisdropped);
  -- A text that an enum does not have becomes NULL.
  SELECT string_agg(format('CASE WHEN %1$s THEN coalesce(%2$s, %3$s) WHEN %4$s THEN coalesce(%2$s, o.%5$I) '
                           'ELSE o.%5$I END AS %5$I', fresh, coalesce(expression, 'NULL::' || format_type(atttypid, -1)),
                           coalesce(pg_get_expr(adbin, adrelid), 'NULL'), changed, attname), ', ' ORDER BY attnum)
    INTO expressions
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum JOIN pg_type t ON t.oid = atttypid
    CROSS JOIN LATERAL (SELECT format(
        CASE WHEN typtype = 'e' THEN '(SELECT e.enumlabel::text::%1$s FROM pg_catalog.pg_enum e '
                                     'WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)'
             ELSE '(%3$s)::%1$s' END, format_type(atttypid, -1), atttypid, the_derived ->> attname)
        WHERE the_derived ? attname UNION ALL SELECT NULL WHERE NOT the_derived ? attname) AS d (expression)
   WHERE attrelid = relation AND attname = ANY (added) AND NOT attisdropped;
  PERFORM set_config('pipestate.work', format(
    'WITH wanted AS MATERIALIZED (SELECT %1$s, %2$s, (%3$s) OR (%4$s) AS pipestate_derived, '
    'o.pipestate_returned IS FALSE AS pipestate_again '
    'FROM %5$s s LEFT JOIN %6$s o ON ROW(%1$s) = ROW(%7$s) CROSS JOIN LATERAL (SELECT %8$s) a '
    'WHERE {range s} AND o.pipestate_returned IS NOT TRUE AND (o.pipestate_returned IS FALSE OR %9$s)), '
    'back AS (UPDATE %5$s AS t SET %10$s FROM wanted w WHERE ROW(%11$s) = ROW(%12$s) AND (w.pipestate_again OR %13$s) '
    'RETURNING %11$s, %14$s, w.pipestate_derived) '
    'UPDATE %6$s o SET pipestate_returned = b.pipestate_derived OR ROW(%16$s)::record *= ROW(%17$s)::record '
    'FROM back b WHERE ROW(%7$s) = ROW(%15$s)',
    replace(keys, '{t}', 's'), expressions, fresh, changed, relation, copy, replace(keys, '{t}', 'o'), archived,
    replace(untouched, '{t}', 's'),
    (SELECT string_agg(format('%1$I = w.%1$I', name), ', ') FROM unnest(added) AS name),
    replace(keys, '{t}', 't'), replace(keys, '{t}', 'w'), replace(untouched, '{t}', 't'),
    (SELECT string_agg(format('t.%I', name), ', ') FROM unnest(added) AS name), replace(keys, '{t}', 'b'),
    (SELECT string_agg(format('b.%I', attname), ', ' ORDER BY attnum) FROM pg_attribute
      WHERE attrelid = relation AND attname = ANY (added) AND NOT attisdropped),
    (SELECT string_agg(format('o.%I::%s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
       FROM pg_attribute WHERE attrelid = relation AND attname = ANY (added) AND NOT attisdropped)), false);
END
