-- Move a table into the archive. Its outgoing foreign keys would still hold back deletes: they are written
-- down and dropped.
--
-- the_table text, the_aside text, the_archive text (the schema of the_aside), the_name text, is_ours boolean,
-- the_baseline text (NULL where there is none), applies boolean
DECLARE
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
  IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END
