-- Say whether this role may read and write what a run records.
CREATE OR REPLACE FUNCTION pipestate.may_record() RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT bool_and(has_table_privilege(c.oid, 'SELECT') AND has_any_column_privilege(c.oid, 'INSERT'))
    FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relname IN ('run', 'result')
$$;

-- List the columns of a table of the ledger that a recording role writes: all but those that the server fills, which are the
-- number of a row, its times and its role.
CREATE OR REPLACE FUNCTION pipestate.written_columns(ledger_table regclass) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
   WHERE a.attrelid = ledger_table AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = ''
     AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') NOT IN ('clock_timestamp()', 'CURRENT_USER')
$$;

-- Let a role read the ledger, and record with `verify --record`, `attest` and `observe`. The server keeps the time of each record.
CREATE OR REPLACE PROCEDURE pipestate.grant_recording(
  the_role name, the_tables text[] DEFAULT '{run,result,attestation,observation}')
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation regclass;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA pipestate TO %I', the_role);
  EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA pipestate TO %I', the_role);
  FOR relation IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relkind = 'r'
                   AND c.relname = ANY (the_tables) LOOP
    EXECUTE format('GRANT INSERT (%s) ON %s TO %I', pipestate.written_columns(relation), relation, the_role);
  END LOOP;
END $$;

-- Let a role also run migrations: their gates call these functions, and write every table of the ledger. Two tables are no record:
-- they say which objects exist now, and which are hidden.
CREATE OR REPLACE PROCEDURE pipestate.grant_migrating(the_role name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  every_table text[] := ARRAY(SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relkind = 'r');
BEGIN
  CALL pipestate.grant_recording(the_role, every_table);
  EXECUTE format('GRANT INSERT, UPDATE, DELETE ON pipestate.object, pipestate.soft_drop TO %I', the_role);
  EXECUTE format('GRANT USAGE ON SEQUENCE pipestate.soft_drop_id_seq TO %I', the_role);
  EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA pipestate TO %I', the_role);
END $$;
