-- The proof, before anything is dropped: every row is in the copy, with the values that it has now, to the byte. Leaves
-- in pipestate.copied, until the end of the transaction, which copies these are.
--
-- the_table text, the_columns text[], the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  columns text[];
  key text[];
  missing bigint;
BEGIN
  columns := ARRAY(SELECT attname FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped
                   ORDER BY attnum);
  IF columns = '{}' THEN RETURN; END IF;
  key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
               JOIN pg_attribute a ON a.attrelid = copy AND a.attnum = k.attnum
               WHERE indrelid = copy AND indisprimary ORDER BY n);
  IF copy IS NOT NULL AND columns <@ ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = copy) THEN
    EXECUTE format('SELECT count(*) FROM %1$s s LEFT JOIN %2$s a ON ROW(%3$s) = ROW(%4$s) '
                   'WHERE a.%5$I IS NULL OR ROW(%6$s)::record *<> ROW(%7$s)::record', relation, copy,
                   (SELECT string_agg(format('s.%I', name), ', ') FROM unnest(key) AS name),
                   (SELECT string_agg(format('a.%I', name), ', ') FROM unnest(key) AS name), key[1],
                   (SELECT string_agg(format('s.%I', name), ', ') FROM unnest(columns) AS name),
                   (SELECT string_agg(format('a.%I', name), ', ') FROM unnest(columns) AS name))
      INTO missing;
  END IF;
  IF missing IS DISTINCT FROM 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s rows of %s are not in %s as they are: something took its triggers away, or it is of another revision. '
      'DROP TABLE %3$s, then run the same again', coalesce(missing::text, 'the'), the_table, the_copy);
  END IF;
  PERFORM set_config('pipestate.copied', concat_ws(E'\n', current_setting('pipestate.copied', true), the_copy), true);
END
