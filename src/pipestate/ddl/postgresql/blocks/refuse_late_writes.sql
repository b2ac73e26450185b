-- Under the lock: refuse where the triggers saw one of the columns written since this run began to copy them.
--
-- the_table text, the_copy text, the_gate text, force_record text (NULL, or the statement that records a force)
DECLARE
  since timestamptz := coalesce(nullif(current_setting('pipestate.watching_since', true), ''), '-infinity');
  late bigint;
BEGIN
  IF to_regclass(the_copy) IS NULL THEN RETURN; END IF;
  EXECUTE format('SELECT count(*) FROM %s WHERE pipestate_written_at >= $1', the_copy) INTO late USING since;
  IF late > 0 THEN
    IF force_record IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'the gate %s is closed: the columns that go were written in %s rows of %s while they were being archived. '
        'Stop what writes them; to see them: SELECT * FROM %s WHERE pipestate_written_at IS NOT NULL',
        the_gate, late, the_table, the_copy);
    END IF;
    EXECUTE force_record;
    PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''),
      format('the columns that go were written in %s rows of %s while they were being archived, and this was forced',
             late, the_table)), false);
  END IF;
END
