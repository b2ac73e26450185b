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
