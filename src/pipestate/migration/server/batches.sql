-- Run a statement once for each range of keys, each in a transaction of its own. In it, {range} selects the rows of the
-- batch. An empty key means the primary key. Nothing happens where the condition does not hold.
CREATE OR REPLACE PROCEDURE pipestate.update_in_batches(
  the_table text, the_key text[], the_size integer, the_work text, the_condition text DEFAULT 'true', the_part text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  relation regclass := pg_catalog.to_regclass(the_table);
  keys text[] := the_key;
  names text;        -- s.a, s.b
  backwards text;
  texts text;
  after_last text;   -- conditions on s
  up_to_next text;
  last_key text[];
  next_key text[];
  within text;
BEGIN
  CALL pipestate.require_part(the_part);
  IF relation IS NULL OR NOT pipestate.holds(the_condition) THEN RETURN; END IF;
  IF pg_catalog.cardinality(keys) = 0 THEN
    keys := ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
                  CROSS JOIN pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                  JOIN pg_catalog.pg_attribute a ON a.attrelid = relation::oid AND a.attnum = k.attnum
                  WHERE i.indrelid = relation::oid AND i.indisprimary AND k.n <= i.indnkeyatts::bigint ORDER BY k.n);
  END IF;
  SELECT pg_catalog.string_agg(pg_catalog.format('{t}.%I', k.name), ', ' ORDER BY k.n),
         pg_catalog.string_agg(pg_catalog.format('{t}.%I DESC', k.name), ', ' ORDER BY k.n),
         pg_catalog.string_agg(pg_catalog.format('{t}.%I::text', k.name), ', ' ORDER BY k.n),
         pg_catalog.string_agg(pg_catalog.format('$1[%s]::%s', k.n, pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n),
         pg_catalog.string_agg(pg_catalog.format('$2[%s]::%s', k.n, pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n)
    INTO names, backwards, texts, after_last, up_to_next
    FROM pg_catalog.unnest(keys) WITH ORDINALITY AS k (name, n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = relation::oid AND a.attname::text = k.name;
  IF names IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s has no primary key, so its rows cannot be split into batches: name unique columns', the_table);
  END IF;
  after_last := pg_catalog.format('ROW(%s) > ROW(%s)', names, after_last);
  up_to_next := pg_catalog.format('ROW(%s) <= ROW(%s)', names, up_to_next);
  LOOP
    -- The last key of the next batch; not max(), which some types do not have.
    EXECUTE pg_catalog.replace(pg_catalog.format(
        'SELECT ARRAY[%1$s] FROM (SELECT * FROM %2$s AS {t} WHERE %3$s ORDER BY %4$s LIMIT %5$s) AS {t} ORDER BY %6$s LIMIT 1',
        texts, relation, CASE WHEN last_key IS NULL THEN pg_catalog.format('(%s) IS NOT NULL', names) ELSE after_last END,
        names, the_size, backwards), '{t}', 's')
      INTO next_key USING last_key;
    EXIT WHEN next_key IS NULL;
    within := pg_catalog.format('(%s AND %s)', CASE WHEN last_key IS NULL THEN '$1 IS NULL' ELSE after_last END, up_to_next);
    EXECUTE pg_catalog.replace(pg_catalog.replace(the_work, '{range}', pg_catalog.replace(within, '{t}', the_table)),
                               '{range s}', pg_catalog.replace(within, '{t}', 's'))
      USING last_key, next_key;
    COMMIT;
    last_key := next_key;
  END LOOP;
END $$;
