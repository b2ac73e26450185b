-- Record the revision where there is a ledger, and no other role's.
CREATE OR REPLACE PROCEDURE pg_temp.pipestate_record(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_catalog.to_regprocedure('pipestate.record_revision(text, text, text, text, text, text, text)') IS NOT NULL
      AND pg_catalog.to_regclass('pipestate.run') IS NOT NULL AND NOT EXISTS (<<strangers>>) THEN
    CALL pipestate.record_revision(event, revision, title, file_sha256, version_table, actor, reason);
  ELSE
    PERFORM pg_catalog.set_config('pipestate.dropped', '', false);
  END IF;
END $$;
