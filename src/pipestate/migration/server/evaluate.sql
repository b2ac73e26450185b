-- Say whether a comparison holds, by how the observed value stands to the required one: -1, 0 or 1.
CREATE OR REPLACE FUNCTION pipestate.holds(op text, standing integer) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE op WHEN '=' THEN standing = 0 WHEN '!=' THEN standing <> 0 WHEN '<' THEN standing < 0
                 WHEN '<=' THEN standing <= 0 WHEN '>' THEN standing > 0 WHEN '>=' THEN standing >= 0 END
$$;

-- Name the kind of a type: number, boolean, text, or the type itself, which nothing can be compared with.
CREATE OR REPLACE FUNCTION pipestate.kind_of(type oid) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE base AS (
    SELECT t.oid, t.typcategory, t.typbasetype FROM pg_type t WHERE t.oid = type
    UNION ALL
    SELECT t.oid, t.typcategory, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.typbasetype
  )
  SELECT CASE WHEN b.oid = 'bool'::regtype THEN 'boolean'
              WHEN b.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype) THEN 'integer'
              WHEN b.oid IN ('float4'::regtype, 'float8'::regtype, 'numeric'::regtype) THEN 'number'
              WHEN b.oid = 'bpchar'::regtype THEN 'padded text'
              WHEN b.oid IN ('json'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'uuid'::regtype)
                OR b.typcategory IN ('D', 'T', 'A', 'R', 'C', 'P') THEN format_type(b.oid, NULL)
              ELSE 'text' END
    FROM base b WHERE b.typbasetype = 0::oid
$$;

-- Compare one value with what a criterion requires of it. NULL and NaN fail; what cannot be compared is errored.
CREATE OR REPLACE FUNCTION pipestate.compare(value text, kind text, op text, required text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  standing integer;
  wanted text;
BEGIN
  IF value IS NULL OR (kind = 'number' AND value = 'NaN') THEN
    RETURN 'failed';
  ELSIF starts_with(required, '''') THEN
    IF kind NOT IN ('text', 'padded text') THEN RETURN 'errored'; END IF;
    value := CASE kind WHEN 'padded text' THEN rtrim(value, ' ') ELSE value END;
    wanted := replace(substr(required, 2, length(required) - 2), '''''', '''');
    standing := CASE WHEN value COLLATE "C" < wanted THEN -1 WHEN value COLLATE "C" > wanted THEN 1 ELSE 0 END;
  ELSIF lower(required) IN ('true', 'false') THEN
    IF kind = 'integer' AND value IN ('0', '1') THEN
      value := CASE value WHEN '1' THEN 'true' ELSE 'false' END;
    ELSIF kind <> 'boolean' THEN
      RETURN 'errored';
    END IF;
    standing := CASE WHEN value = lower(required) THEN 0 ELSE 1 END;
  ELSIF kind NOT IN ('integer', 'number') THEN
    RETURN 'errored';
  ELSIF value IN ('Infinity', '-Infinity') THEN
    standing := CASE value WHEN 'Infinity' THEN 1 ELSE -1 END;
  ELSE
    standing := sign(value::numeric - required::numeric);
  END IF;
  RETURN CASE WHEN pipestate.holds(op, standing) THEN 'passed' ELSE 'failed' END;
END $$;

-- Show a value in a message, as SQL writes it.
CREATE OR REPLACE FUNCTION pipestate.shown(value jsonb) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN value IS NULL OR value = 'null'::jsonb THEN 'NULL'
              WHEN length(v.written) > 80 THEN left(v.written, 79) || '…' ELSE v.written END
    FROM (SELECT CASE jsonb_typeof(value) WHEN 'string' THEN '''' || replace(value #>> '{}', '''', '''''') || ''''
                                          ELSE value #>> '{}' END) AS v (written)
$$;

-- Name a column of the first row with a time that no client can hold: the year 20000, a date BC, a million years.
CREATE OR REPLACE FUNCTION pipestate.unreadable(answer jsonb) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT min(c.key) FROM jsonb_each_text(CASE jsonb_typeof(answer -> 'types') WHEN 'object' THEN answer -> 'types' ELSE '{}' END) AS c (key, type) JOIN pg_type t ON t.oid = c.type::oid
    LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
   WHERE coalesce(e.typcategory, t.typcategory) IN ('D', 'T')
     AND answer -> 'first' ->> c.key ~ '[0-9]{5,}-[0-9]{2}-[0-9]{2}| BC|[0-9]{7,} year'
$$;

-- Judge what a check returned by its criterion: outcome, observed, message.
CREATE OR REPLACE FUNCTION pipestate.judge_check(required text, answer jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  columns text[] := ARRAY(SELECT jsonb_array_elements_text(answer -> 'columns'));
  returned text := 'the query returned ' || coalesce(nullif(array_to_string(columns, ', '), ''), 'no columns');
  n bigint := (answer ->> 'rows')::bigint;
  rows_said text := n || CASE n WHEN 1 THEN ' row' ELSE ' rows' END;
  observed jsonb := CASE WHEN n = 1 AND length(answer ->> 'first') < 20000 THEN answer -> 'first' ELSE '{}' END;
  part text[];
  same integer;
  place text;
  kind text;
  line text;
  counts boolean := false;
  compares boolean := false;
  count_failed boolean := false;
  outcome text;
  said text[] := '{}';
  wrong text[] := '{}';
  unclear text[] := '{}';
  worst text := 'passed';
BEGIN
  IF regexp_replace(required, '[^\s=<>!'']+\s*(?:<=|>=|!=|=|<|>)\s*(?:''(?:[^'']|'''')*''|[^\s'']+)', '', 'g') !~* '^(\s|and)*$' THEN
    RETURN jsonb_build_object('outcome', 'errored', 'observed', observed, 'message', 'the criterion cannot be read');
  END IF;
  place := pipestate.unreadable(answer);
  IF place IS NOT NULL THEN
    RETURN jsonb_build_object('outcome', 'errored', 'observed', '{}'::jsonb, 'message', format('the query returned a value that '
      'cannot be read (%s): have it return text there, as CAST(x AS text), or another column', place));
  END IF;
  FOR part IN SELECT p.parts FROM pipestate.comparisons(required) AS p (parts) LOOP
    counts := counts OR lower(part[1]) = 'rows';
    compares := compares OR lower(part[1]) <> 'rows';
    SELECT coalesce(nullif(count(*) FILTER (WHERE c = part[1]), 0), count(*)) INTO same
      FROM unnest(columns) AS c WHERE lower(c) = lower(part[1]);
    IF lower(part[1]) = 'rows' AND same > 0 THEN
      unclear := unclear || format('`rows` is the number of rows, but %s: rename that column', returned);
    ELSIF lower(part[1]) <> 'rows' AND same = 0 THEN
      unclear := unclear || format('no column %s: %s', part[1], returned);
    ELSIF lower(part[1]) <> 'rows' AND same > 1 THEN
      unclear := unclear || format('column %s is there %s times: %s', part[1], same, returned);
    END IF;
  END LOOP;
  IF counts OR n <> 1 THEN
    observed := jsonb_build_object('rows', n) || observed;
  END IF;
  IF unclear <> '{}' THEN
    RETURN jsonb_build_object('outcome', 'errored', 'observed', observed, 'message',
      (SELECT string_agg(DISTINCT u, '; ') FROM unnest(unclear) AS u));
  END IF;
  FOR part IN SELECT p.parts FROM pipestate.comparisons(required) AS p (parts) WHERE lower(p.parts[1]) = 'rows' LOOP
    outcome := pipestate.compare(n::text, 'integer', part[2], part[3]);
    count_failed := count_failed OR outcome = 'failed';
    said := said || format('rows is %s, required %s %s', n, part[2], part[3]);
    wrong := CASE outcome WHEN 'passed' THEN wrong ELSE wrong || said[cardinality(said)] END;
  END LOOP;
  IF count_failed AND n > 0 AND NOT compares THEN
    RETURN jsonb_build_object('outcome', 'failed', 'observed', observed, 'message', format('%s, first: %s; required %s',
      rows_said, left(coalesce((SELECT string_agg(concat_ws(' ', CASE WHEN cardinality(columns) > 1 THEN c.name END,
        pipestate.shown(answer -> 'first' -> c.name)), ', ' ORDER BY c.place)
        FROM unnest(columns) WITH ORDINALITY AS c (name, place) WHERE answer -> 'first' ->> c.name IS NOT NULL), 'NULL'), 200), required));
  ELSIF count_failed THEN
    RETURN jsonb_build_object('outcome', 'failed', 'observed', observed, 'message', array_to_string(wrong, '; '));
  ELSIF compares AND n = 0 THEN
    RETURN jsonb_build_object('outcome', 'failed', 'observed', observed, 'message', 'no row, required ' || required);
  ELSIF compares AND n > 1 THEN
    RETURN jsonb_build_object('outcome', 'errored', 'observed', observed, 'message', format('the query returned %s of %s; '
      'comparing a column needs exactly one: aggregate in the query, or require `rows`', rows_said, array_to_string(columns, ', ')));
  END IF;
  FOR part IN SELECT p.parts FROM pipestate.comparisons(required) AS p (parts) WHERE lower(p.parts[1]) <> 'rows' LOOP
    SELECT c INTO place FROM unnest(columns) AS c WHERE lower(c) = lower(part[1]) ORDER BY c = part[1] DESC LIMIT 1;
    kind := pipestate.kind_of((answer -> 'types' ->> place)::oid);
    IF kind IN ('json', 'jsonb') THEN  -- a value of JSON is what it is there
      kind := CASE jsonb_typeof(answer -> 'first' -> place) WHEN 'string' THEN 'text' WHEN 'boolean' THEN 'boolean'
        WHEN 'number' THEN CASE WHEN answer -> 'first' ->> place ~ '^-?[0-9]+$' THEN 'integer' ELSE 'number' END ELSE kind END;
    END IF;
    outcome := pipestate.compare(answer -> 'first' ->> place, kind, part[2], part[3]);
    line := format('%s is %s, required %s %s', part[1], pipestate.shown(answer -> 'first' -> place), part[2], part[3]);
    IF outcome = 'errored' THEN
      line := format('%s: a value of type %s cannot be compared with it', line, kind);
      wrong := CASE worst WHEN 'errored' THEN wrong ELSE '{}' END;
      worst := 'errored';
    ELSIF outcome = 'failed' AND worst = 'passed' THEN
      worst := 'failed';
    END IF;
    said := said || line;
    wrong := CASE outcome WHEN worst THEN wrong || line ELSE wrong END;
  END LOOP;
  RETURN jsonb_build_object('outcome', worst, 'observed', observed, 'message',
    array_to_string(CASE worst WHEN 'passed' THEN said ELSE wrong END, '; '));
END $$;

-- Split a criterion, `recent = 0 and total >= 1`, into its comparisons: column, operator, literal.
CREATE OR REPLACE FUNCTION pipestate.comparisons(required text) RETURNS TABLE (parts text[])
LANGUAGE sql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
  SELECT m FROM regexp_matches(required, '([^\s=<>!'']+)\s*(<=|>=|!=|=|<|>)\s*(''(?:[^'']|'''')*''|[^\s'']+)', 'g') AS m
$$;

-- Evaluate one check: whatever happens in it becomes its result.
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
    answer := pipestate.judge_check(task ->> 'required', pipestate.read_check(task ->> 'query', path, files));
  EXCEPTION
    WHEN query_canceled THEN
      answer := jsonb_build_object('message', CASE WHEN extract(epoch FROM clock_timestamp() - began)
          < extract(epoch FROM current_setting('statement_timeout')::interval)
        THEN format('was cancelled by somebody after %s s: ask again', round(extract(epoch FROM clock_timestamp() - began)::numeric, 1))
        ELSE format('took longer than %s s: make the query faster, or give it more time (pipestate_timeout in alembic.ini)',
          extract(epoch FROM current_setting('statement_timeout')::interval)::float8) END);
    WHEN OTHERS THEN
      answer := jsonb_build_object('message', SQLERRM);
  END;
  RETURN jsonb_build_object('outcome', 'errored', 'observed', '{}'::jsonb) || answer
    || jsonb_build_object('check_id', task -> 'check_id', 'required', task -> 'required', 'level', task -> 'level',
      'source', task -> 'source', 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1));
END $$;
