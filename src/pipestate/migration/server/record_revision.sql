-- Record a revision that a script has applied or taken back: its file, what end_revision has found dropped, and why it was forced.
CREATE OR REPLACE PROCEDURE pipestate.record_revision(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text)
LANGUAGE plpgsql AS $$
DECLARE
  dropped jsonb := nullif(nullif(pg_catalog.current_setting('pipestate.dropped', true), ''), '[]');
BEGIN
  INSERT INTO pipestate.run (event, actor, revision, reason, title, file_sha256, version_table, dropped, database)
  SELECT event, actor, revision, CASE WHEN dropped IS NOT NULL THEN reason END, title, file_sha256,
         (SELECT pg_catalog.format('"%s"."%s"', pg_catalog.replace(n.nspname, '"', '""'), pg_catalog.replace(c.relname, '"', '""'))
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           WHERE c.oid = pg_catalog.to_regclass(version_table)),
         dropped, pipestate.this_database();
  PERFORM pg_catalog.set_config('pipestate.dropped', '', false);
END $$;
