-- Validate the foreign keys, of a table that came back, that were valid when it was archived. One that rows break meanwhile,
-- because their parent is gone, stays NOT VALID: the rows are kept.
--
-- the_name text
DECLARE
  entry record;
  back text;
  rule jsonb;
  said text;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name
   AND definition ? 'back';
  IF NOT FOUND THEN RETURN; END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NULL THEN RETURN; END IF;
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    CONTINUE WHEN NOT (rule ->> 'validated')::boolean;
    BEGIN
      EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', back, rule ->> 'name');
    EXCEPTION WHEN foreign_key_violation THEN
      said := format('%s of %s stays NOT VALID: some of its rows point at rows that are gone. Delete or fix '
                     'those rows, then ALTER TABLE %s VALIDATE CONSTRAINT %I',
                     rule ->> 'name', the_name, back, rule ->> 'name');
      RAISE WARNING '%', said;
      PERFORM set_config('pipestate.said',
                         concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), said), false);
    END;
  END LOOP;
END
