-- Add archived columns again, NULL at first; a default serves the rows to come. Leaves in pipestate.work the
-- statement that brings back the values of one batch, and marks in the copy what is back. The caller holds the lock.
--
-- Where a column is still NULL a row gets its archived value; a derived one where it has changed since, that is, where
-- the_changed_at is not what it was. What somebody has written into a column since it came back is left alone. A row
-- that is new gets derived values or the defaults, where all of the columns are NULL.
--
-- The manifest notes which columns are filled, and which of them were added here: what stands in one that somebody else
-- has added is not taken for something that was written since it came back (settle_columns).
--
-- the_table text, the_name text, the_revision text, the_copy text, the_changed_at text (NULL: none),
-- the_derived jsonb (column: an expression over the row s and its archived values a, as texts)
DECLARE
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
END
