-- Record a revision that a script has applied or taken back: its file, what end_revision has found dropped, and why it was forced.
CREATE OR REPLACE PROCEDURE pipestate.record_revision(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dropped jsonb := nullif(nullif(current_setting('pipestate.dropped', true), ''), '[]');
BEGIN
  INSERT INTO pipestate.run (event, actor, revision, reason, title, file_sha256, version_table, dropped, database)
  SELECT event, actor, revision, CASE WHEN dropped IS NOT NULL THEN reason END, title, file_sha256,
         (SELECT format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""'))
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.oid = pipestate.resolve(version_table, path)),
         dropped, pipestate.this_database();
  PERFORM set_config('pipestate.dropped', '', false);
END $$;
