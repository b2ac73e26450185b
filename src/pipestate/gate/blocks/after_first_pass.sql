-- The second pass: the first one was passed in this transaction, and the tables are locked.
--
-- <<passed>> names the revision and its first pass, <<tables>> the tables, <<not_locked>> says of one, `wanted`, that this session
-- does not hold its lock, <<broken_off>> raises
  IF nullif(current_setting('pipestate.look', true), '')::jsonb ->> 'of'
      IS DISTINCT FROM <<passed>>
      OR EXISTS (SELECT FROM unnest(ARRAY[<<tables>>]) AS wanted
                 WHERE <<not_locked>>) THEN
    <<broken_off>>
  END IF;
  before := (current_setting('pipestate.look')::jsonb ->> 'filled')::boolean;
