-- Refuse to go back where the archive is gone, unless that is forced: then nothing comes back, and the ledger
-- says why.
--
-- the_kind text ('table' or 'columns'), the_what text, the_table text, the_name text, the_revision text,
-- the_aside text, force_record text (NULL, or the statement that records a force)
DECLARE
  known boolean;
  held boolean;
  from_schema text;
  fault text := 'the archive of %s is gone (purged?)';
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    -- a table is in the archive, or was brought back by a run that was killed then
    SELECT definition ? 'absent' OR to_regclass(the_aside) IS NOT NULL
           OR definition ? 'back' AND to_regclass(the_table) IS NOT NULL,
           (definition ->> 'held')::boolean AND to_regclass(the_aside) IS NOT NULL, origin
      INTO known, held, from_schema
      FROM pipestate_archive.manifest WHERE kind = the_kind AND name = the_name AND revision = the_revision;
  END IF;
  IF the_kind = 'columns' AND to_regclass(the_aside) IS NOT NULL AND to_regclass(the_table) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s does not exist under that name, so nothing takes %s back, which stay in %s: rename it, or move it back into '
      'its schema, then run the same again', the_table, the_what, the_aside);
  END IF;
  IF to_regclass(the_aside) IS NOT NULL AND (
      the_kind = 'columns' AND (SELECT to_regclass(format('%s.%I', from_schema, relname)) <> oid
                                  FROM pg_class WHERE oid = to_regclass(the_table))
      OR the_kind = 'table' AND the_name NOT LIKE '%.%' AND to_regnamespace(from_schema) <> ALL (
           ARRAY(SELECT to_regnamespace(quote_ident(name)) FROM unnest(current_schemas(false)) AS name))) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'what is archived of %s is from the schema %s, and here that name means another table: set search_path, then '
      'run the same again', the_name, from_schema);
  END IF;
  IF held THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', the_aside) INTO known;
    fault := 'every row in the archive of %s is gone (a dump without its data?)';
  END IF;
  IF known IS TRUE THEN RETURN; END IF;
  IF force_record IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      fault || ', so this downgrade cannot bring it back. To go on without it, with what '
      'can be derived: alembic -x force=''reason'' downgrade ...', the_what);
  END IF;
  EXECUTE force_record;
  PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''),
    format(fault || ', and this was forced: what it held does not come back', the_what)), false);
END
