-- Keep, of the table that replaces the one that goes, the key and the time of the last change of each row: what is
-- not the same later has changed since.
--
-- the_table text, the_key text[] (empty: the primary key of the_table), the_source text, the_changed_at text,
-- the_baseline text
DECLARE
  key text[] := the_key;
  names text;
BEGIN
  IF to_regclass(the_table) IS NULL OR to_regclass(the_source) IS NULL THEN RETURN; END IF;
  -- That of a table which is in the archive is not replaced: archive_table refuses this one.
  IF EXISTS (SELECT FROM pipestate_archive.manifest
             WHERE definition ->> 'baseline' = the_baseline AND to_regclass(aside) IS NOT NULL) THEN RETURN; END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = k.attnum
                 WHERE indrelid = to_regclass(the_table) AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  names := (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name);
  EXECUTE format('DROP TABLE IF EXISTS %s', the_baseline);
  EXECUTE format('CREATE TABLE %s AS SELECT %s, %I AS pipestate_changed_at FROM %s',
                 the_baseline, names, the_changed_at, the_source);
  EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', the_baseline, names);
  EXECUTE format('ANALYZE %s', the_baseline);
END
