-- Ask one check, in the world of a look, which the exception at the end of the reading takes back, and add what was
-- found to the results of the pass.
--
-- <<of>> names revision and pass, <<broken_off>> raises, <<applies>> says whether the check is asked in this pass,
-- <<world>> sets the world, <<trusted>> refuses a stranger's ledger, <<files>> tells a check on rehearsals the revisions' files, <<query>> is the check,
-- <<holds>> its criterion over the number of rows `n` and whether the columns `held`, <<values>> its id, criterion and
-- place, <<observed>> what was seen, <<seconds>> the timeout, <<id>> and <<required>> the first two again
DECLARE
  look jsonb := nullif(current_setting('pipestate.look', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  said text;
  stranger record;
BEGIN
  IF look ->> 'of' IS DISTINCT FROM <<of>> THEN
    <<broken_off>>
  END IF;
  IF NOT (<<applies>>) THEN RETURN; END IF;
  BEGIN
<<world>>
<<files>>
<<trusted>>
    EXECUTE <<query>> INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION
    WHEN SQLSTATE 'PSTRO' THEN
      outcome := CASE WHEN <<holds>> THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', <<values>>, left(<<observed>>, 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than <<seconds>> s (%3$s)', <<values>>);
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', <<values>>, SQLERRM);
  END;
  PERFORM set_config('pipestate.look', jsonb_set(look, '{results}', (look -> 'results') || jsonb_build_object(
    'check_id', <<id>>, 'outcome', outcome, 'level', 'block',
    'required', <<required>>, 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);
END
