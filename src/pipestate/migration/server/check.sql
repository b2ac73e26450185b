-- Run one query read-only and return its value. The subtransaction is always rolled back, with every setting and
-- whatever a function of the query did. No setting of the role, the database or the client changes the answer; the
-- server's own names come first on the path, temporary tables last.
CREATE OR REPLACE FUNCTION pipestate.read_only(query text, path text, files text) RETURNS json
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  answer json;
  is_read boolean := false;
BEGIN
  BEGIN
    PERFORM set_config('pipestate.files', files, true),
            set_config('transaction_read_only', 'on', true),
            set_config('row_security', 'off', true),
            set_config('TimeZone', 'UTC', true),
            set_config('standard_conforming_strings', 'on', true),
            set_config('DateStyle', 'ISO, MDY', true),
            set_config('IntervalStyle', 'postgres', true),
            set_config('transform_null_equals', 'off', true),
            set_config('array_nulls', 'on', true),
            set_config('bytea_output', 'hex', true),
            set_config('extra_float_digits', '1', true),
            set_config('quote_all_identifiers', 'off', true),
            set_config('lock_timeout', '10s', true),
            set_config('constraint_exclusion', 'on', true),
            set_config('jit', 'off', true),
            set_config('search_path', path, true);
    EXECUTE query INTO answer;
    is_read := true;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN
    IF NOT is_read THEN
      RAISE EXCEPTION 'the query raised an error of its own: PSTRO';
    END IF;
  END;
  RETURN answer;
END $$;

-- Read what a check returns: its columns, the number of its rows, the first row, and the types of its columns.
CREATE OR REPLACE FUNCTION pipestate.read_check(query text, path text, files text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  columns text[];
  types text;
  plan jsonb;
BEGIN
  IF query ~* '^(\s|--[^\n]*\n|/\*.*?\*/)*explain\M' THEN
    plan := pipestate.read_only(format(
      'SELECT pg_catalog.to_json(pg_catalog.string_to_array(pipestate.explain(%L), E''\n''))', query), path, files);
    RETURN jsonb_build_object('columns', jsonb_build_array('QUERY PLAN'), 'rows', jsonb_array_length(plan),
      'first', jsonb_build_object('QUERY PLAN', plan -> 0), 'types', '{}'::jsonb);
  END IF;
  -- LIMIT 0: the query is planned, not run.
  columns := ARRAY(SELECT json_array_elements_text(pipestate.read_only(format(
    E'SELECT coalesce(pg_catalog.json_agg(k), ''[]'') FROM (SELECT q.* FROM (SELECT) AS one LEFT JOIN (SELECT * FROM (\n%s\n) AS c LIMIT 0)'
    ' AS q ON true) AS r, LATERAL pg_catalog.json_object_keys(pg_catalog.to_json(r)) AS k', query), path, files)));
  SELECT format('ARRAY[%s]::text[], ARRAY[%s]::text[]', string_agg(quote_literal(c), ', '),
                string_agg(format('pg_catalog.pg_typeof(q.%I)::pg_catalog.oid::text', c), ', ')) INTO types
    FROM unnest(columns) AS c WHERE (SELECT count(*) FROM unnest(columns) AS same WHERE same = c) = 1;
  RETURN jsonb_build_object('columns', columns) || pipestate.read_only(format(
    E'WITH q AS MATERIALIZED (\n%s\n) SELECT pg_catalog.json_build_object(''rows'', (SELECT pg_catalog.count(*) FROM q), '
    '''first'', (SELECT pg_catalog.to_json(f) FROM (SELECT * FROM q LIMIT 1) AS f), '
    '''types'', (SELECT pg_catalog.json_object(%s) FROM q LIMIT 1))', query, types), path, files)::jsonb;
END $$;

-- Return the lines of a plan.
CREATE OR REPLACE FUNCTION pipestate.explain(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  line text;
  lines text[];
BEGIN
  FOR line IN EXECUTE query LOOP
    lines := pg_catalog.array_append(lines, line);
  END LOOP;
  RETURN pg_catalog.array_to_string(lines, E'\n');
END $$;
