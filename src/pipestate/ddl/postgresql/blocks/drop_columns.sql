-- Write down what hangs on the columns, then drop them with the triggers that kept the copy true. The caller
-- holds the lock, and has described the columns in this transaction.
--
-- the_table text, the_columns text[], the_name text, the_revision text, the_copy text,
-- the_keep text, the_inserted text, the_updated text, watched boolean (the copy was made before the lock)
DECLARE
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  described jsonb := nullif(current_setting('pipestate.described', true), '')::jsonb -> the_copy;
  todo text;
  sequence text;
  held boolean;
BEGIN
  SELECT string_agg(format('DROP COLUMN %I', attname), ', ' ORDER BY attnum) INTO todo
    FROM pg_attribute WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped;
  IF todo IS NULL THEN RETURN; END IF;
  IF watched AND 2 > (SELECT count(*) FROM pg_trigger WHERE tgrelid = relation AND tgenabled = 'A'
                        AND tgname IN (the_inserted, the_updated)) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the triggers that keep %s true are gone or disabled: DROP TABLE %1$s, then run the same again', the_copy);
  END IF;
  IF described IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'what hangs on the columns of %s was not written down in this transaction, so they stay: run the whole script',
      the_table);
  END IF;
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attname = ANY (the_columns) AND NOT attisdropped AND attname NOT IN (
               SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(the_copy) AND NOT attisdropped))
      OR NOT watched AND the_copy <> ALL (string_to_array(coalesce(current_setting('pipestate.copied', true), ''), E'\n')) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s are not all in %s as they are now, so none is dropped: call archive_columns for the same columns first',
      array_to_string(the_columns, ', '), the_table, the_copy);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', the_copy) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, revision, origin, aside, definition)
  SELECT 'columns', the_name, the_revision, relnamespace::regnamespace::text, the_copy, jsonb_build_object(
           'held', held) || (described - 'state')
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;

  FOR sequence IN SELECT s ->> 'name' FROM jsonb_array_elements(described -> 'sequences') AS s LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY NONE', sequence);  -- it would go with its column
  END LOOP;
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_inserted, relation);
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_updated, relation);
  EXECUTE format('DROP FUNCTION IF EXISTS %s()', the_keep);
  EXECUTE format('ALTER TABLE %s %s', relation, todo);
  PERFORM set_config('search_path', path, true);
END
