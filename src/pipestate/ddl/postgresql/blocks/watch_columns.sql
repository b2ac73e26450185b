-- Begin to copy columns aside: an empty copy and, where it is filled while others write, two triggers that keep
-- it true from now on; run again, it finds them there. The caller holds the lock. Leaves in pipestate.work the
-- statement that copies one batch.
--
-- the_table text, the_columns text[], the_key text[] (empty: the primary key), the_changed_at text (NULL: none),
-- the_copy text, the_keep text (the triggers' function), the_inserted text, the_updated text (their names),
-- watched boolean (others write meanwhile)
DECLARE
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  key text[] := the_key;
  columns text[];
  kept text;      -- k, c, changed_at: what the copy holds of a row
  kept_as text;   -- the same, with the copy's own name for changed_at
  new_key text;
  new_values text;
  old_values text;
  assigned text;
  given text;     -- was one of the columns given a value by an INSERT?
BEGIN
  PERFORM set_config('pipestate.work', '', false);
  PERFORM set_config('pipestate.watching_since', clock_timestamp()::text, false);
  columns := ARRAY(SELECT attname FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped
                   ORDER BY attnum);
  IF columns = '{}' THEN RETURN; END IF;
  IF EXISTS (SELECT FROM pipestate_archive.manifest WHERE aside = the_copy AND to_regclass(the_copy) IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from the schema %s: bring that back (alembic downgrade) or end it with pipestate purge, '
      'then run the same again', the_copy, (SELECT origin FROM pipestate_archive.manifest WHERE aside = the_copy));
  END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  IF key = '{}' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%1$s has no primary key, by which its rows could be found again: name unique columns that are NOT NULL, '
      'keys={''%1$s'': [...]}', the_table);
  END IF;
  IF key && columns THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot be archived: rows are found again by it. Name another key, keys={''%2$s'': [...]}',
      array_to_string(ARRAY(SELECT unnest(key) INTERSECT SELECT unnest(columns)), ', '), the_table);
  END IF;
  IF NOT EXISTS (
      SELECT FROM pg_index WHERE indrelid = relation AND indisunique AND indisvalid AND indpred IS NULL
         AND ARRAY(SELECT attname::text FROM unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                   JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum AND a.attnotnull
                   WHERE n <= indnkeyatts ORDER BY 1)
             = ARRAY(SELECT unnest(key) ORDER BY 1)) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s (%s) is no key: it needs a unique index, and every column of it NOT NULL. Add that, or name another '
      'key, keys={''%1$s'': [...]}', the_table, array_to_string(key, ', '));
  END IF;

  PERFORM set_config('search_path', '', true);  -- names in full: the triggers' function has a path of its own
  kept := (SELECT string_agg(format('%I', name), ', ') FROM unnest(key || columns) AS name)
          || coalesce(', ' || quote_ident(the_changed_at), '');
  kept_as := (SELECT string_agg(format('%I', name), ', ') FROM unnest(key || columns) AS name)
             || CASE WHEN the_changed_at IS NULL THEN '' ELSE ', pipestate_changed_at' END;
  IF NOT watched THEN
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_inserted, relation);
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_updated, relation);
    EXECUTE format('DROP FUNCTION IF EXISTS %s()', the_keep);
    EXECUTE format('DROP TABLE IF EXISTS %s', the_copy);
  END IF;
  IF to_regclass(the_copy) IS NULL THEN
    EXECUTE format('CREATE TABLE %s AS SELECT %s%s, NULL::timestamptz AS pipestate_written_at, '
                   'NULL::boolean AS pipestate_returned FROM %s WITH NO DATA', the_copy,
                   (SELECT string_agg(format('%I', name), ', ') FROM unnest(key || columns) AS name),
                   coalesce(', ' || quote_ident(the_changed_at) || ' AS pipestate_changed_at', ''), relation);
    EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', the_copy,
                   (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name));
    EXECUTE format('CREATE INDEX ON %s (pipestate_written_at) WHERE pipestate_written_at IS NOT NULL', the_copy);
  END IF;

  PERFORM set_config('pipestate.work', format(
    'INSERT INTO %s (%s) SELECT %s FROM %s s WHERE {range s} ON CONFLICT DO NOTHING',
    the_copy, kept_as, kept, relation), false);
  IF NOT watched THEN
    PERFORM set_config('search_path', path, true);
    RETURN;
  END IF;

  new_key := (SELECT string_agg(format('NEW.%I', name), ', ') FROM unnest(key || columns) AS name);
  old_values := replace(new_key, 'NEW.', 'OLD.');
  new_values := new_key || coalesce(', NEW.' || quote_ident(the_changed_at), '');
  assigned := (SELECT string_agg(format('%1$I = excluded.%1$I', name), ', ') FROM unnest(columns) AS name)
              || CASE WHEN the_changed_at IS NULL THEN ''
                      ELSE ', pipestate_changed_at = excluded.pipestate_changed_at' END;
  -- An INSERT that leaves the columns alone writes NULL or their defaults. Of a default that is computed nobody
  -- can tell whether it was written.
  given := (SELECT string_agg(CASE WHEN adbin IS NULL THEN format('NOT (NEW.%I IS NULL)', attname)
                                   ELSE format('NEW.%I::text IS DISTINCT FROM (%s)::text', attname, expression) END,
                              ' OR ')
              FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
              LEFT JOIN LATERAL pg_get_expr(adbin, adrelid) AS expression ON true
             WHERE attrelid = relation AND attname = ANY (columns) AND expression NOT LIKE '%(%' IS NOT FALSE);
  EXECUTE format($make$
    CREATE OR REPLACE FUNCTION %1$s() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $keep$
    DECLARE
      written boolean;
    BEGIN
      IF TG_OP = 'UPDATE' THEN
        written := ROW(%2$s)::record *<> ROW(%3$s)::record;
      ELSE
        written := %4$s;
      END IF;
      INSERT INTO %5$s AS kept (%6$s, pipestate_written_at)
      VALUES (%7$s, CASE WHEN written THEN clock_timestamp() END)
      ON CONFLICT (%8$s) DO UPDATE SET %9$s,
        pipestate_written_at = coalesce(excluded.pipestate_written_at, kept.pipestate_written_at);
      RETURN NULL;
    END $keep$ $make$,
    the_keep, old_values, new_key, coalesce(given, 'false'), the_copy, kept_as, new_values,
    (SELECT string_agg(format('%I', name), ', ') FROM unnest(key) AS name), assigned);
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation AND tgname = the_inserted) THEN
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION %s()',
                   the_inserted, relation, the_keep);
    EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s FOR EACH ROW '
                   'WHEN (ROW(%s)::record *<> ROW(%s)::record) EXECUTE FUNCTION %s()',
                   the_updated, relation, replace(new_values, 'NEW.', 'OLD.'), new_values, the_keep);
    -- also for those who write as a replica does (a subscription, a bulk load)
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I, ENABLE ALWAYS TRIGGER %I',
                   relation, the_inserted, the_updated);
  END IF;
  PERFORM set_config('search_path', path, true);
END
