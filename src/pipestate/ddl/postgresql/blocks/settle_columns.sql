-- The proof that every archived value is back, before anybody is locked out: what a batch did not mark in the copy
-- was deleted since, or written by somebody since it came back, or is lost. The last ends the way back here; the
-- others are marked, so that under the lock an index tells that nothing is left. Then look for rows that break a
-- unique constraint: its index would not be built.
--
-- In a column that somebody else has added nothing counts as written since it came back: what differs in it from the
-- archived value, in a row that did not change, ends the way back unless that is forced.
--
-- the_table text, the_name text, the_revision text, the_copy text, the_changed_at text (NULL: none),
-- force_record text (NULL, or the statement that records a force)
DECLARE
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
END
