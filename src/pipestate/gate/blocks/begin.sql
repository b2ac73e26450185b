-- Begin a pass of the gate: refuse where the database stands elsewhere or the isolation is another one, see whether
-- there are rows, and set the timeout of the checks, which inside of their blocks would do nothing.
--
-- <<other_version>> refuses another revision, <<after_first_pass>> stands in the second pass alone,
-- <<not_read_committed>> raises, <<hold_rows>> sets `filled`, <<of>> names revision and pass, <<before>> is `filled` of
-- the first pass, <<timeout>> that of a check
DECLARE
  filled boolean := false;
  before boolean;
  t text;
BEGIN
<<other_version>>
<<after_first_pass>>
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    <<not_read_committed>>
  END IF;
<<hold_rows>>
  PERFORM set_config('pipestate.look', jsonb_build_object('of', <<of>>, 'filled', filled,
    'before', <<before>>, 'results', '[]'::jsonb)::text, true);
  PERFORM set_config('pipestate.statement_timeout', current_setting('statement_timeout'), true);
  PERFORM set_config('statement_timeout', <<timeout>>, true);
END
