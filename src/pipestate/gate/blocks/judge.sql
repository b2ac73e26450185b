-- Judge a pass: refuse where a check does not hold or was not asked; record it; at last leave the mark.
-- Values come from the data: what a terminal would obey is shown as a question mark.
--
-- <<of>> names revision and pass, <<obeyed>> is the pattern of what a terminal obeys, <<broken_off>> raises, <<wanted>> are the checks that must have been asked,
-- <<closed>> raises or, where it is forced, warns, <<not_asked>> says that there is nothing to lose, <<recorded>> writes into the ledger, <<passed_on>> tells the second
-- pass of the first, or leaves the mark
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  found text;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM <<of>> THEN
    <<broken_off>>
  END IF;
  PERFORM set_config('statement_timeout', current_setting('pipestate.statement_timeout'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> <<wanted>> THEN
      <<broken_off>>
    END IF;
    SELECT string_agg(format(E'\n  %s: %s', r ->> 'check_id', regexp_replace(r ->> 'message', <<obeyed>>, '?', 'g')), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      <<closed>>
    END IF;
<<recorded>>
  ELSE
<<not_asked>>
  END IF;
  PERFORM <<passed_on>>;
END
