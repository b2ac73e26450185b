-- The second pass: the first one was passed in this transaction, and the tables are locked.
--
-- <<passed>> names the revision and its first pass, <<tables>> the tables, <<broken_off>> raises
  IF nullif(current_setting('pipestate.look', true), '')::jsonb ->> 'of'
      IS DISTINCT FROM <<passed>>
      OR EXISTS (SELECT FROM unnest(ARRAY[<<tables>>]) AS wanted
                 WHERE to_regclass(wanted) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted AND mode = 'AccessExclusiveLock' AND relation = to_regclass(wanted))) THEN
    <<broken_off>>
  END IF;
  before := (current_setting('pipestate.look')::jsonb ->> 'filled')::boolean;
