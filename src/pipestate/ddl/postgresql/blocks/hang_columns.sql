-- What hangs on returned columns and would be checked against every row: added NOT VALID, to be validated when the
-- lock is gone; a CHECK in the place of NOT NULL, which older servers cannot add so. Domains come first. The caller
-- holds the lock. From here on the rows are not filled again, so the proof that they are must be there: a psql may have
-- gone on without it.
--
-- the_table text, the_name text, the_revision text, the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  hanging jsonb;
  rule jsonb;
  line text;
  said text[];
  planner text := current_setting('enable_seqscan');
  lost boolean;
BEGIN
  IF to_regclass(the_copy) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT definition INTO hanging FROM pipestate_archive.manifest
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;
  IF hanging IS NULL OR hanging ? 'filled' THEN RETURN; END IF;
  PERFORM set_config('enable_seqscan', 'off', true);  -- an index has what is not back
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE pipestate_returned IS NOT TRUE)', the_copy) INTO lost;
  PERFORM set_config('enable_seqscan', planner, true);
  IF lost THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'rows of %s did not get their archived values back, so %s stays: nothing is lost. Run the same again',
      the_table, the_copy);
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
    IF (rule ->> 'not_null')::boolean AND NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = relation AND conname = 'pipestate_not_null_' || (rule ->> 'number')) THEN
      EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL) NOT VALID',
                     relation, 'pipestate_not_null_' || (rule ->> 'number'), rule ->> 'name');
    END IF;
  END LOOP;
  FOR rule IN SELECT jsonb_array_elements(hanging -> 'constraints') LOOP
    CONTINUE WHEN rule ->> 'kind' NOT IN ('c', 'f', 'n')
      OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = rule ->> 'name');
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', relation, rule ->> 'name', rule ->> 'definition',
                   CASE WHEN (rule ->> 'validated')::boolean THEN ' NOT VALID' ELSE '' END);
  END LOOP;
  UPDATE pipestate_archive.manifest SET definition = definition || '{"filled": true}'
   WHERE kind = 'columns' AND name = the_name AND revision = the_revision;

  FOREACH line IN ARRAY coalesce(said, '{}') LOOP
    RAISE WARNING '%', line;
    PERFORM set_config('pipestate.said',
                       concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
  END LOOP;
END
