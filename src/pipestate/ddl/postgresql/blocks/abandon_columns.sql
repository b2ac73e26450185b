-- Take back what an archiving of columns that never came to its end has left: the triggers and the copy.
-- The caller holds the lock.
--
-- the_table text, the_copy text, the_keep text, the_inserted text, the_updated text
DECLARE
  relation regclass := to_regclass(the_table);
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation AND tgname = the_inserted) THEN RETURN; END IF;
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_inserted, relation);
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_updated, relation);
  EXECUTE format('DROP FUNCTION IF EXISTS %s()', the_keep);
  EXECUTE format('DROP TABLE IF EXISTS %s', the_copy);
END
