-- Say whether there is a ledger, and of trusted roles alone.
CREATE OR REPLACE FUNCTION pg_temp.pipestate_may_record() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN to_regprocedure('pipestate.record_revision(text, text, text, text, text, text, text, text)') IS NOT NULL
    AND to_regclass('pipestate.run') IS NOT NULL AND NOT EXISTS (<<foreign_owner>>);
END $$;

-- Record the revision there.
CREATE OR REPLACE PROCEDURE pg_temp.pipestate_record(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_temp.pipestate_may_record() THEN
    CALL pipestate.record_revision(event, revision, title, file_sha256, version_table, actor, reason);
  ELSE
    PERFORM pg_catalog.set_config('pipestate.dropped', '', false);
  END IF;
END $$;
