-- The end of the way back: what is left to hang on the columns, none of it checked against the rows but what no
-- server can add otherwise (an exclusion constraint); then the copy goes, of which nothing is left to bring back. The
-- caller holds the lock.
--
-- the_table text, the_name text, the_revision text, the_copy text, prepared boolean (indexes of unique constraints
-- were built before the lock)
DECLARE
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  duplicated text[] := coalesce(nullif(current_setting('pipestate.duplicated', true), ''), '{}');
  planner text := current_setting('enable_seqscan');
  hanging jsonb;
  lost boolean;
  rule jsonb;
  line text;
  said text[];
BEGIN
  IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL THEN RETURN; END IF;

  PERFORM set_config('enable_seqscan', 'off', true);  -- an index has what is not back
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE pipestate_returned IS NOT TRUE)', copy) INTO lost;
  PERFORM set_config('enable_seqscan', planner, true);
  IF lost THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'rows of %s did not get their archived values back, so %s stays: nothing is lost. Run the same again',
      the_table, the_copy);
  END IF;

  FOR rule IN SELECT jsonb_array_elements(hanging -> 'columns') LOOP
    line := 'pipestate_not_null_' || (rule ->> 'number');
    IF (rule ->> 'not_null')::boolean THEN
      IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = line AND convalidated) THEN
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', relation, rule ->> 'name');
      ELSE
        said := said || format('%s.%s stays nullable: rows written since have no value for it',
                               the_table, rule ->> 'name');
      END IF;
      EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', relation, line);
    END IF;
    -- One that somebody else has added has kept its own default until now.
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I %s', relation, rule ->> 'name',
                   coalesce('SET DEFAULT ' || (rule ->> 'default'), 'DROP DEFAULT'));
    FOR line IN SELECT jsonb_array_elements_text(rule -> 'settings') LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I %s', relation, rule ->> 'name', line);
    END LOOP;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', relation, rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'sequences') LOOP
    IF to_regclass(rule ->> 'name') IS NOT NULL THEN
      EXECUTE format('ALTER SEQUENCE %s OWNED BY %s.%I', rule ->> 'name', relation, rule ->> 'column');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'constraints') LOOP
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name') THEN
      BEGIN
        line := (SELECT i ->> 'name' FROM jsonb_array_elements(hanging -> 'indexes') AS i
                  WHERE prepared AND i ->> 'constraint' = rule ->> 'name' AND to_regclass(i ->> 'name') IS NOT NULL);
        IF rule ->> 'name' = ANY (duplicated) THEN
          RAISE unique_violation;
        END IF;
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, rule ->> 'name',
          CASE WHEN line IS NULL THEN rule ->> 'definition'
               ELSE concat_ws(' ', CASE rule ->> 'kind' WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END,
                              'USING INDEX', (SELECT quote_ident(relname) FROM pg_class WHERE oid = to_regclass(line)),
                              substring(rule ->> 'definition' FROM ' (DEFERRABLE.*)$')) END);
      EXCEPTION WHEN integrity_constraint_violation THEN
        said := said || format('constraint %s of %s did not come back: rows written since break it. It was: %s',
                               rule ->> 'name', the_table, rule ->> 'definition');
        CONTINUE;
      END;
    END IF;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', relation, rule ->> 'comment');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'indexes') LOOP
    IF rule ->> 'comment' IS NOT NULL AND to_regclass(rule ->> 'name') IS NOT NULL THEN
      EXECUTE format('COMMENT ON INDEX %s IS %L', rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR line IN SELECT jsonb_array_elements_text(hanging -> 'marks') LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s %s', relation, line);
    EXCEPTION WHEN undefined_object OR object_not_in_prerequisite_state OR wrong_object_type THEN
      said := said || format('%s has lost its mark: ALTER TABLE %1$s %s failed (%s)', the_table, line, SQLERRM);
    END;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'statistics') LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_statistic_ext
                          WHERE format('%s.%I', stxnamespace::regnamespace, stxname) = rule ->> 'name');
    EXECUTE rule ->> 'definition';
    IF rule ->> 'target' IS NOT NULL THEN
      EXECUTE format('ALTER STATISTICS %s SET STATISTICS %s', rule ->> 'name', rule ->> 'target');
    END IF;
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON STATISTICS %s IS %L', rule ->> 'name', rule ->> 'comment');
    END IF;
  END LOOP;
  FOR line IN SELECT jsonb_array_elements_text(hanging -> 'grants') LOOP
    BEGIN
      EXECUTE line;
    EXCEPTION WHEN undefined_object THEN
      said := said || format('not granted again, the role is gone: %s', line);
    END;
  END LOOP;
  EXECUTE format('DROP TABLE %s', copy);
  DELETE FROM pipestate_archive.manifest WHERE kind = 'columns' AND name = the_name AND revision = the_revision;

  FOREACH line IN ARRAY coalesce(said, '{}') LOOP
    RAISE WARNING '%', line;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
  END LOOP;
END
