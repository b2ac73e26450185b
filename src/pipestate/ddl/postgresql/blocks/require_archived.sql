-- Refuse to go back where the archive is gone, unless that is forced: then nothing comes back, and the ledger
-- says why.
--
-- the_kind text ('table' or 'columns'), the_what text, the_table text, the_name text, the_revision text,
-- the_aside text, force_record text (NULL, or the statement that records a force)
DECLARE
  known boolean;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NOT NULL THEN
    -- a table is in the archive, or back already in a run that was killed
    SELECT definition ? 'absent' OR to_regclass(the_aside) IS NOT NULL
           OR the_kind = 'table' AND to_regclass(the_table) IS NOT NULL INTO known
      FROM pipestate_archive.manifest WHERE kind = the_kind AND name = the_name AND revision = the_revision;
  END IF;
  IF known IS TRUE THEN RETURN; END IF;
  IF force_record IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive of %s is gone (purged?), so this downgrade cannot bring it back. To go on without it, with what '
      'can be derived: alembic -x force=''reason'' downgrade ...', the_what);
  END IF;
  EXECUTE force_record;
  PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''),
    format('the archive of %s is gone, and this was forced: what it held does not come back', the_what)), false);
END
