-- Validate what came back NOT VALID: it reads the table, and nobody waits. What rows written since break stays NOT
-- VALID, and is said. Leaves in pipestate.validated that it came to its end.
--
-- the_table text, the_name text, the_revision text, the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  rule jsonb;
  line text;
BEGIN
  PERFORM set_config('pipestate.validated', '', false);
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    FOR rule IN SELECT each FROM pipestate_archive.manifest
                  CROSS JOIN jsonb_array_elements((definition -> 'constraints') || (definition -> 'columns')) AS each
                 WHERE kind = 'columns' AND name = the_name AND revision = the_revision LOOP
      line := coalesce('pipestate_not_null_' || (rule ->> 'number'), rule ->> 'name');
      CONTINUE WHEN NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND conname = line
                                AND contype IN ('c', 'f', 'n') AND NOT convalidated)
        OR NOT coalesce((rule ->> 'validated')::boolean, true);
      BEGIN
        EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, line);
      EXCEPTION WHEN integrity_constraint_violation THEN
        CONTINUE WHEN rule ? 'number';  -- said when the column stays nullable
        line := format('constraint %1$s of %2$s stays NOT VALID: rows written since break it (%3$s). Fix those, then '
                       'ALTER TABLE %2$s VALIDATE CONSTRAINT %1$I', line, the_table, rule ->> 'definition');
        RAISE WARNING '%', line;
        PERFORM set_config('pipestate.said',
                           concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), line), false);
      END;
    END LOOP;
  END IF;
  PERFORM set_config('pipestate.validated', the_name || '/' || the_revision, false);
END
