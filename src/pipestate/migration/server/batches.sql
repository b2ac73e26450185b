-- Write the statements of an update in batches: one finds the last key of the next batch, the other works on it. $1 is the last
-- key of the batch before, NULL at first; $2 is the key that was found. NULL: there is no table, or the condition does not hold.
CREATE OR REPLACE FUNCTION pipestate.batch_statements(
  the_table text, the_key text[], the_size integer, the_work text, the_condition text, path text, OUT next_key text, OUT work text) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  keys text[] := the_key;
  names text;        -- {t}.a, {t}.b
  backwards text;
  texts text;
  after_last text;
  up_to_next text;
BEGIN
  IF relation IS NULL OR NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  IF keys = '{}' THEN
    keys := ARRAY(SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                  JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                  WHERE i.indrelid = relation AND i.indisprimary AND k.n <= i.indnkeyatts ORDER BY k.n);
  END IF;
  SELECT string_agg(format('{t}.%I', k.name), ', ' ORDER BY k.n),
         string_agg(format('{t}.%I DESC', k.name), ', ' ORDER BY k.n),
         string_agg(format('{t}.%I::text', k.name), ', ' ORDER BY k.n),
         string_agg(format('$1[%s]::%s', k.n, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n),
         string_agg(format('$2[%s]::%s', k.n, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n)
    INTO names, backwards, texts, after_last, up_to_next
    FROM unnest(keys) WITH ORDINALITY AS k (name, n) JOIN pg_attribute a ON a.attrelid = relation AND a.attname = k.name;
  IF names IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s has no primary key, so its rows cannot be split into batches: name unique columns', the_table);
  END IF;
  after_last := format('($1 IS NULL OR ROW(%s) > ROW(%s))', names, after_last);
  up_to_next := format('(%s AND ROW(%s) <= ROW(%s))', after_last, names, up_to_next);
  -- Not max(), which some types do not have.
  next_key := replace(format('SELECT ARRAY[%s] FROM (SELECT * FROM %s AS {t} WHERE (%s) IS NOT NULL AND %s '
    'ORDER BY %3$s LIMIT %5$s) AS {t} ORDER BY %6$s LIMIT 1', texts, relation, names, after_last, the_size, backwards), '{t}', 's');
  work := replace(replace(the_work, '{range}', replace(up_to_next, '{t}', the_table)), '{range s}', replace(up_to_next, '{t}', 's'));
END $$;

-- Run a statement once for each range of keys, each in a transaction of its own. In it, {range} selects the rows of the
-- batch. An empty key means the primary key. Nothing happens where the condition does not hold.
CREATE OR REPLACE PROCEDURE pipestate.update_in_batches(
  the_table text, the_key text[], the_size integer, the_work text, the_condition text DEFAULT 'true', the_part text DEFAULT NULL,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql AS $$
DECLARE
  statements record;
  last_key text[];
  next_key text[];
BEGIN
  CALL pipestate.require_part(the_part);
  SELECT * INTO statements FROM pipestate.batch_statements(the_table, the_key, the_size, the_work, the_condition, path);
  LOOP
    EXIT WHEN statements.next_key IS NULL;
    EXECUTE statements.next_key INTO next_key USING last_key;
    EXIT WHEN next_key IS NULL;
    EXECUTE statements.work USING last_key, next_key;
    COMMIT;
    last_key := next_key;
  END LOOP;
END $$;
