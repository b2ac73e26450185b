-- The end of the way back: what hung on the columns, the proof that every value is there, and only then the copy
-- goes. The caller holds the lock.
--
-- the_table text, the_name text, the_revision text, the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  copy regclass := to_regclass(the_copy);
  hanging jsonb;
  key text[];
  columns text[];
  lost bigint;
  rule jsonb;
  line text;
  said text[];
BEGIN
  IF copy IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL THEN RETURN; END IF;

  -- Rows that got something else than their archived values, or nothing. What somebody wrote since is theirs.
  columns := ARRAY(SELECT c ->> 'name' FROM jsonb_array_elements(hanging -> 'columns') AS x (c));
  key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
               JOIN pg_attribute a ON a.attrelid = copy AND a.attnum = k.attnum
               WHERE indrelid = copy AND indisprimary ORDER BY n);
  EXECUTE format('SELECT count(*) FROM %1$s t JOIN %2$s o ON ROW(%3$s) = ROW(%4$s) '
                 'WHERE o.pipestate_returned IS FALSE OR o.pipestate_returned IS NULL AND %5$s AND (%6$s)', relation, copy,
                 (SELECT string_agg(format('t.%I', name), ', ') FROM unnest(key) AS name),
                 (SELECT string_agg(format('o.%I', name), ', ') FROM unnest(key) AS name),
                 (SELECT string_agg(format('t.%I IS NULL', name), ' AND ') FROM unnest(columns) AS name),
                 (SELECT string_agg(format('NOT (o.%I IS NULL)', name), ' OR ') FROM unnest(columns) AS name))
    INTO lost;
  IF lost > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s rows of %s did not get their archived values back, so %s stays: nothing is lost. Something changes them '
      'as they are written (a trigger, a rule): disable it, then run the same again', lost, the_table, the_copy);
  END IF;

  FOR rule IN SELECT jsonb_array_elements(hanging -> 'columns') LOOP
    IF rule ->> 'domain' IS NOT NULL THEN
      BEGIN
        EXECUTE format('ALTER TABLE %1$s ALTER COLUMN %2$I DROP DEFAULT, ALTER COLUMN %2$I TYPE %3$s',
                       relation, rule ->> 'name', rule ->> 'domain');
        IF rule ->> 'default' IS NOT NULL THEN
          EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
                         relation, rule ->> 'name', rule ->> 'default');
        END IF;
      EXCEPTION WHEN integrity_constraint_violation THEN
        said := said || format('%s.%s stays %s: rows written since do not fit into %s',
                               the_table, rule ->> 'name', rule ->> 'type', rule ->> 'domain');
      END;
    END IF;
    IF (rule ->> 'not_null')::boolean THEN
      BEGIN
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', relation, rule ->> 'name');
      EXCEPTION WHEN not_null_violation THEN
        said := said || format('%s.%s stays nullable: rows written since have no value for it',
                               the_table, rule ->> 'name');
      END;
    END IF;
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
    CONTINUE WHEN EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name');
    BEGIN
      EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, rule ->> 'name', rule ->> 'definition');
      IF rule ->> 'comment' IS NOT NULL THEN
        EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', relation, rule ->> 'comment');
      END IF;
    EXCEPTION WHEN integrity_constraint_violation THEN
      said := said || format('constraint %s of %s did not come back: rows written since break it. It was: %s',
                             rule ->> 'name', the_table, rule ->> 'definition');
    END;
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
