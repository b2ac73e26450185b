-- Say which version of these functions is installed. A client of another version refuses to use them.
CREATE OR REPLACE FUNCTION pipestate.runtime() RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT 1 $$;
