-- Say in a sentence what the server said of a compiled check.
CREATE OR REPLACE FUNCTION pipestate.explain_error(said text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT regexp_replace(said, e.pattern, e.sentence) FROM (VALUES
<<errors>>
  ) AS e (pattern, sentence) WHERE said ~ e.pattern LIMIT 1), said)
$$;

-- Read the first row of a query, for a message; an error of it hides no verdict.
CREATE OR REPLACE FUNCTION pipestate.first_row(query text, path text, files text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN left(pipestate.read_only(format(E'SELECT pg_catalog.to_json(f) FROM (\n%s\n) AS f LIMIT 1', query), path, files)::text, 200);
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- Run one compiled check, which returns its own verdict: whatever happens in it becomes its result.
CREATE OR REPLACE FUNCTION pipestate.evaluate(task jsonb, path text, files text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  began timestamptz := clock_timestamp();
  schemas text[] := ARRAY(SELECT json_array_elements_text(pipestate.read_only('SELECT pg_catalog.to_json(pg_catalog.current_schemas(false))', path, '')));
  found text := pipestate.impostors(schemas, task ->> 'query');
  answer jsonb;
BEGIN
  BEGIN
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('<<uses_impostors>>', found);
    END IF;
    answer := pipestate.read_only(format(E'SELECT pg_catalog.to_json(v) FROM (\n%s\n) AS v',
      concat(split_part(task ->> 'frame', '{query}', 1), task ->> 'query', substr(task ->> 'frame',
        length(split_part(task ->> 'frame', '{query}', 1)) + length('{query}') + 1))), path, files);
    IF answer ->> 'outcome' = 'failed' AND (task ->> 'shows_rows')::boolean THEN
      answer := answer || jsonb_build_object('message', concat(answer ->> 'message', '; first: ' || pipestate.first_row(task ->> 'query', path, files)));
    END IF;
    answer := answer || jsonb_build_object('row', answer -> 'observed', 'observed', coalesce((answer ->> 'observed')::jsonb,
      jsonb_build_object('rows', answer -> 'rows')));
  EXCEPTION
    WHEN query_canceled THEN
      answer := jsonb_build_object('message', CASE WHEN extract(epoch FROM clock_timestamp() - began)
          < extract(epoch FROM current_setting('statement_timeout')::interval)
        THEN format('was cancelled by somebody after %s s: ask again', round(extract(epoch FROM clock_timestamp() - began)::numeric, 1))
        ELSE format('took longer than %s s: make the query faster, or give it more time (pipestate_timeout in alembic.ini)',
          extract(epoch FROM current_setting('statement_timeout')::interval)::float8) END);
    WHEN OTHERS THEN
      answer := jsonb_build_object('message', pipestate.explain_error(SQLERRM));
  END;
  RETURN jsonb_build_object('outcome', 'errored', 'observed', '{}'::jsonb) || answer
    || jsonb_build_object('check_id', task -> 'check_id', 'required', task -> 'required', 'level', task -> 'level',
      'source', task -> 'source', 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1));
END $$;
