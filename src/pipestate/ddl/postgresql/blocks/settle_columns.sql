-- The proof that every archived value is back, before anybody is locked out: what a batch did not mark in the copy
-- was deleted since, or written by somebody since it came back, or is lost. The last ends the way back here; the
-- others are marked, so that under the lock an index tells that nothing is left. Then look for rows that break a
-- unique constraint: its index would not be built.
--
-- the_table text, the_name text, the_revision text, the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  hanging jsonb;
  key text[];
  columns text[];
  same text;
  lost bigint;
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
                 'AND (o.pipestate_returned IS FALSE OR %4$s AND (%5$s))', relation, copy, same,
                 (SELECT string_agg(format('t.%I IS NULL', name), ' AND ') FROM unnest(columns) AS name),
                 (SELECT string_agg(format('NOT (o.%I IS NULL)', name), ' OR ') FROM unnest(columns) AS name))
    INTO lost;
  IF lost > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s rows of %s did not get their archived values back, so %s stays: nothing is lost. Something changes them '
      'as they are written (a trigger, a rule): disable it, then run the same again', lost, the_table, the_copy);
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
