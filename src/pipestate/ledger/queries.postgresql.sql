-- Queries of pipestate.ledger by name: `database/queries.py` reads them. <<name>> is filled in.

-- name: installed_functions
-- The version is read from the function's body, so functions of other owners are never called.
SELECT
    (SELECT pg_catalog.substring(p.prosrc, '[0-9]+')::integer FROM pg_catalog.pg_proc p
      WHERE p.pronamespace = n.oid AND p.proname = 'runtime'),
    (SELECT pg_catalog.string_agg(<<facts>>, E'\n')
       FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid)
  FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'

-- name: install_functions
  SELECT pg_catalog.substring(p.prosrc, '[0-9]+') INTO todo FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = pg_catalog.to_regnamespace('pipestate') AND p.proname = 'runtime';
  IF todo::integer > <<version>> THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('the functions of the ledger are newer (version %s) than this pipestate (version <<version>>): use the pipestate that installed them', todo);
  END IF;
  -- A routine whose arguments have changed is another one to the server. One that a view calls is replaced.
  FOR todo IN SELECT pg_catalog.format('DROP ROUTINE %s', p.oid::pg_catalog.regprocedure) FROM pg_catalog.pg_proc p
               WHERE p.pronamespace = pg_catalog.to_regnamespace('pipestate') AND p.proname IN (<<names>>)
                 AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refobjid = p.oid
                                 AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass) LOOP
    EXECUTE todo;
  END LOOP;
  PERFORM pg_catalog.set_config('check_function_bodies', 'off', true);  -- they call each other
<<creates>>
  REVOKE ALL ON ALL ROUTINES IN SCHEMA pipestate FROM PUBLIC;
  -- Views call them: they read only catalogues, which everybody may read.
  GRANT EXECUTE ON FUNCTION pipestate.schema_definitions(), pipestate.schema_method(), pipestate.this_database() TO PUBLIC;

-- name: remove_functions
<<guard>>
  FOR todo IN SELECT pg_catalog.format('DROP ROUTINE %s', p.oid::pg_catalog.regprocedure) FROM pg_catalog.pg_proc p
               WHERE p.pronamespace = pg_catalog.to_regnamespace('pipestate') AND p.proname IN (<<names>>) LOOP
    EXECUTE todo;
  END LOOP;

-- name: remove_server_guard
  IF pg_catalog.to_regnamespace('pipestate_guard') IS NOT NULL THEN
    BEGIN
      DROP EVENT TRIGGER IF EXISTS pipestate_guard;
      DROP EVENT TRIGGER IF EXISTS pipestate_guard_start;
      DROP SCHEMA pipestate_guard CASCADE;
    EXCEPTION WHEN insufficient_privilege THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
        'the guard in the server belongs to another role: run pipestate guard remove as its owner first';
    END;
  END IF;

-- name: server_guard_functions
SELECT p.proname::text AS name, p.prosrc AS body, p.prosecdef AS definer, p.proconfig::text AS config,
       pg_catalog.pg_get_userbyid(p.proowner)::text AS owner
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'pipestate_guard'

-- name: server_guard_triggers
SELECT t.evtname::text AS name, t.evtevent::text AS event, t.evtenabled::text AS enabled, t.evttags IS NULL AS every_tag,
       (SELECT concat(n.nspname, '.', p.proname) FROM pg_catalog.pg_proc p
          JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = t.evtfoid) AS function,
       pg_catalog.pg_get_userbyid(t.evtowner)::text AS owner,
       pg_catalog.obj_description(t.oid, 'pg_event_trigger') AS comment
FROM pg_catalog.pg_event_trigger t WHERE t.evtname = ANY (:names)

-- name: server_guard_owner
SELECT pg_catalog.pg_get_userbyid(n.nspowner)::text AS owner, n.nspowner = r.oid OR o.rolsuper AS is_trusted
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner, pg_catalog.pg_roles r
WHERE n.nspname = 'pipestate_guard' AND r.rolname = current_user

-- name: ledger_owner
SELECT pg_catalog.pg_get_userbyid(c.relowner)::text FROM pg_catalog.pg_class c
WHERE c.oid = pg_catalog.to_regclass('pipestate.run')

-- name: soft_drops
-- Oids and built-in functions only, so every reader of the ledger can run it. `bytes` is the total table size.
SELECT e.id::text AS id, e.kind, e.schema_name || '.' || e.table_name AS name, e.revision,
       ARRAY(SELECT c ->> 'name' FROM pg_catalog.jsonb_array_elements(e.columns) AS c)::text[] AS columns,
       pg_catalog.pg_total_relation_size(k.oid) AS bytes, k.reltuples::bigint AS rows, e.dropped_at AS at,
       e.schema_name <> ALL (pg_catalog.current_schemas(false)) AND pg_catalog.strpos(e.name, '.') = 0 AS is_elsewhere
  FROM pipestate.soft_drop e
  JOIN pg_catalog.pg_class k ON k.oid = CASE e.kind
         WHEN 'table' THEN (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                             WHERE n.nspname = 'pipestate_archive' AND c.relname = '_pipestate_' || e.id || '_0')
         ELSE (SELECT c.oid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                WHERE a.attname = '_pipestate_' || e.id || '_0' AND a.attinhcount = 0 AND NOT a.attisdropped
                  AND c.relkind IN ('r', 'p') ORDER BY c.relname <> e.table_name LIMIT 1) END
 WHERE e.state = 'hidden' ORDER BY e.dropped_at, e.id

-- name: may_read_soft_drops
-- Read by oid: a name in a closed schema raises an error.
SELECT pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'pipestate' AND c.relname = 'soft_drop'

-- name: orphans
-- Hidden columns without a ledger entry: a restore cannot find them.
SELECT pg_catalog.string_agg(DISTINCT a.attrelid::pg_catalog.regclass::text, ', ')
  FROM pg_catalog.pg_attribute a WHERE a.attname ~ '^_pipestate_[0-9]+_0$' AND NOT a.attisdropped AND a.attinhcount = 0
   AND EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND n.nspname <> 'pipestate_archive')
   AND NOT EXISTS (SELECT FROM pipestate.soft_drop e WHERE e.state = 'hidden'
                      AND '_pipestate_' || e.id || '_0' = a.attname)

-- name: statement_server
-- The checkpointer restarts with the server and after a backend crash; both lose statistics. The last column
-- lists settings that stop the server from counting every statement. Disuse needs it to be empty.
SELECT current_setting('server_version_num')::integer / 10000 || ', timeline '
         || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8),
       (SELECT max(a.backend_start) FROM pg_catalog.pg_stat_activity a WHERE a.backend_type = 'checkpointer'),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication),
       concat_ws('; ',
         CASE WHEN current_setting('pg_stat_statements.track', true) = 'none' THEN 'pg_stat_statements.track is none' END,
         CASE WHEN current_setting('pg_stat_statements.track_utility', true) = 'off'
              THEN 'pg_stat_statements.track_utility is off' END,
         CASE WHEN current_setting('compute_query_id', true) = 'off' THEN 'compute_query_id is off' END,
         (SELECT 'a role or database has its own setting: ' || min(each) FROM pg_catalog.pg_db_role_setting,
                 unnest(setconfig) AS each WHERE each ~ '^(pg_stat_statements[.]|compute_query_id)'),
         (SELECT 'statements inside functions are not counted, and one names the table: ' || min(p.oid::regprocedure::text)
                 || '; set pg_stat_statements.track = all'
          FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
          WHERE current_setting('pg_stat_statements.track', true) IS DISTINCT FROM 'all' AND p.oid >= 16384
            AND p.prokind IN ('f', 'p') AND n.nspname <> 'pipestate' AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend d WHERE d.deptype = 'e' AND d.objid = p.oid
                AND d.classid = 'pg_catalog.pg_proc'::regclass)
            AND EXISTS (SELECT FROM jsonb_array_elements_text(CAST(:words AS jsonb)) AS word
                        WHERE strpos(lower(pg_catalog.pg_get_functiondef(p.oid)), word) > 0)))

-- name: statement_calls
-- `time` reveals a statement that was reset and then reached the same number of calls.
SELECT coalesce(jsonb_object_agg(concat_ws('/', s.queryid, s.userid, to_jsonb(s) ->> 'toplevel'), jsonb_build_object(
         'id', s.queryid::text, 'calls', s.calls, 'time', s.total_exec_time, 'since', to_jsonb(s) -> 'stats_since',
         'query', left(s.query, 300))) FILTER (WHERE s.queryid IS NOT NULL), '{}')::text,
       count(*) FILTER (WHERE s.queryid IS NULL OR s.query = '<insufficient privilege>')
FROM <<relation>> s
WHERE s.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AND s.userid NOT IN (
        SELECT r.oid FROM pg_catalog.pg_roles r
        WHERE r.rolname IN (SELECT jsonb_array_elements_text(CAST(:except AS jsonb))))
  AND (s.queryid IS NULL OR s.query IS NULL OR s.query = '<insufficient privilege>'
       OR EXISTS (SELECT FROM jsonb_array_elements_text(CAST(:words AS jsonb)) AS word
                  WHERE strpos(lower(s.query), word) > 0))

-- name: statement_ids
SELECT queryid::text, query FROM <<relation>> WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AND queryid IS NOT NULL

-- name: statement_schema
SELECT pg_catalog.quote_ident(n.nspname) || '.'
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'

-- name: last_records
SELECT runbook, phase, open_since IS NOT NULL AS is_open,
    CASE WHEN isfinite(last_record_at) THEN extract(epoch FROM last_record_at) END::float8 AS at,
    CASE WHEN hours_since_last_record IS NOT NULL THEN
        greatest(0, extract(epoch FROM statement_timestamp() - last_record_at)) END::float8 AS age_s,
    CASE WHEN open_since IS NOT NULL THEN
        greatest(0, extract(epoch FROM statement_timestamp() - open_since)) END::float8 AS open_s
FROM pipestate.soak ORDER BY runbook, phase

-- name: last_observations
SELECT name, value, extract(epoch FROM observed_at)::float8 AS at, age_seconds::float8 AS age_s
FROM pipestate.latest_observation ORDER BY name

-- name: ledger_columns
SELECT c.relname::text, pg_catalog.string_agg(a.attname::text, ',')
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v') GROUP BY 1

-- name: record_schema
CALL pipestate.record_schema(:revision, :actor)

-- name: record_schema_in_script
DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND NOT EXISTS (
    <<foreign_owner>>) THEN
    CALL pipestate.record_schema(<<revision>>, <<actor>>);
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;
