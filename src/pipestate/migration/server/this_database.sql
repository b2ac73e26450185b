-- Name this database: the server's identifier where it may be read, the database's OID and its name. A TEMPLATE copy,
-- a restored dump and a renamed database have another name here.
CREATE OR REPLACE FUNCTION pipestate.this_database() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  server text := '-';
BEGIN
  IF has_function_privilege('pg_control_system()', 'EXECUTE') THEN
    SELECT system_identifier::text INTO server FROM pg_control_system();
  END IF;
  RETURN (SELECT format('%s/%s/%s', server, oid, datname) FROM pg_database WHERE datname = current_database());
END
$$;
