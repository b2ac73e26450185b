-- Begin a pass of the gate: refuse where somebody else's functions could answer, where the database stands elsewhere,
-- or the encoding or the isolation is another one; see whether there are rows, and set the timeout of the checks, which
-- inside of their blocks would do nothing.
--
-- <<planted>> refuses what somebody else has planted, <<other_encoding>> raises, <<other_version>> refuses another revision, <<after_first_pass>> stands in the second pass alone,
-- <<not_read_committed>> raises, <<hold_rows>> sets `filled`, <<of>> names revision and pass, <<before>> is `filled` of
-- the first pass, <<timeout>> that of a check
DECLARE
  planted text;
  filled boolean := false;
  before boolean;
  t text;
BEGIN
<<planted>>
  IF current_setting('client_encoding') <> 'UTF8' THEN
    <<other_encoding>>
  END IF;
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
