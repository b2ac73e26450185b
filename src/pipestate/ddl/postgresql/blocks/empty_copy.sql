-- In place of a copy that was purged, an empty one: then every row counts as new, and its values are derived.
--
-- the_table text, the_key text[] (empty: the primary key), the_name text, the_revision text, the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  key text[] := the_key;
  todo text;
BEGIN
  IF relation IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL
      OR to_regclass(the_copy) IS NOT NULL THEN RETURN; END IF;
  SELECT string_agg(format('ADD COLUMN %I %s', c ->> 'name', c ->> 'type'), ', ') INTO todo
    FROM pipestate_archive.manifest, jsonb_array_elements(definition -> 'columns') AS x (c)
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF todo IS NULL THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  EXECUTE format('CREATE TABLE %s AS SELECT %s FROM %s WITH NO DATA', the_copy,
                 (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name), relation);
  EXECUTE format('ALTER TABLE %s %s, ADD COLUMN pipestate_changed_at text, ADD COLUMN pipestate_returned boolean, '
                 'ADD PRIMARY KEY (%s)', the_copy, todo,
                 (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name));
END
