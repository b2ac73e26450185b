-- Queries of pipestate.rehearse by name: `database/queries.py` reads them. <<name>> is filled in.

-- name: server
SELECT pg_is_in_recovery() AS in_recovery, (SELECT system_identifier FROM pg_control_system()) AS system,
(SELECT timeline_id FROM pg_control_checkpoint()) AS timeline,
(SELECT oid::int8 FROM pg_database WHERE datname = current_database()) AS oid

-- name: may_adopt
SELECT bool_and(has_table_privilege('pipestate.' || name, 'UPDATE')) FROM unnest(ARRAY['run', 'attestation', 'rehearsal']) AS name

-- name: sees
SELECT current_user::text AS role, pg_has_role('pg_read_all_stats', 'USAGE') AS sees

-- name: other_sessions
SELECT pid, usename, application_name FROM pg_stat_activity WHERE datname = current_database()
AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid

-- name: tables
SELECT c.oid::int8 AS oid, format('%I.%I', n.nspname, c.relname) AS quoted,
CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END AS name,
CASE c.relkind WHEN 'p' THEN 0 ELSE greatest(c.reltuples, 0)::int8 END AS rows, pg_table_size(c.oid) AS bytes, pg_relation_filenode(c.oid)::int8 AS file
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT LIKE 'pg\_%'
AND n.nspname NOT IN ('information_schema', 'pipestate') AND (SELECT string_agg(a.attname, ' ')
FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
IS DISTINCT FROM 'version_num' ORDER BY pg_table_size(c.oid) DESC, 3

-- name: production_figures
-- A table that was never analysed has -1 rows; before PostgreSQL 14, zero pages.
SELECT wanted.name, CASE WHEN c.relkind = 'p' OR pg_relation_size(c.oid) = 0 THEN 0
WHEN c.reltuples >= 0 AND c.relpages > 0 THEN c.reltuples::int8 END AS rows, pg_table_size(c.oid) AS bytes,
(SELECT EXTRACT(epoch FROM max(clock_timestamp() - a.xact_start))::float8 FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.relation = c.oid AND l.granted
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND a.pid <> pg_backend_pid()) AS oldest_s
FROM unnest(CAST(:names AS text[])) AS wanted (name) JOIN pg_class c ON c.oid = to_regclass(wanted.name)

-- name: own_locks
-- It returns at least one row, for the lock_timeout: outside a transaction, a statement's locks end with it.
SELECT l.relation::pg_catalog.int8, l.mode, pg_catalog.pg_relation_filenode(l.relation)::pg_catalog.int8,
(EXTRACT(epoch FROM pg_catalog.current_setting('lock_timeout')::pg_catalog.interval) * 1000)::pg_catalog.float8
FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_locks l ON l.pid = pg_catalog.pg_backend_pid()
AND l.locktype = 'relation' AND l.granted AND l.relation >= 16384 AND l.mode <> 'AccessShareLock'

-- name: prepare_locks
PREPARE pipestate_locks AS SELECT l.relation::int8, l.mode, a.backend_type FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'relation' AND l.relation >= 16384
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.granted AND l.mode <> 'AccessShareLock' AND l.pid <> ALL (ARRAY[<<ours>>])

-- name: prepare_rows
PREPARE pipestate_rows AS SELECT ctid::text FROM ONLY <<table>> WHERE ctid = ANY ('{<<places>>}'::tid[])
AND xmax IN (SELECT transactionid FROM pg_locks WHERE locktype = 'transactionid')

-- name: copy_facts
-- Copying needs CREATEDB and an owned source; before PostgreSQL 15 there is one copy strategy.
SELECT current_database()::text AS name, pg_database_size(d.oid) AS bytes,
current_setting('server_version_num')::int >= 150000 AS has_strategies,
r.rolsuper OR (r.rolcreatedb AND (d.datistemplate OR pg_has_role(d.datdba, 'USAGE'))) AS may_copy
FROM pg_database d, pg_roles r WHERE d.datname = current_database() AND r.rolname = current_user

-- name: copy_settings
-- Settings of ALTER DATABASE, such as lock_timeout, are not copied with the database. Lists keep their spelling;
-- other settings are single values.
SELECT 'ALTER ' || CASE s.setrole WHEN 0 THEN '' ELSE format('ROLE %s IN ', s.setrole::regrole) END
|| format('DATABASE %I SET %I TO %s', CAST(:name AS text), split_part(c, '=', 1), CASE WHEN split_part(c, '=', 1)
IN ('search_path', 'temp_tablespaces', 'session_preload_libraries', 'local_preload_libraries')
THEN substr(c, strpos(c, '=') + 1) ELSE quote_literal(substr(c, strpos(c, '=') + 1)) END)
FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS c
WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
AND s.setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = current_user))

-- name: prepare_waits
PREPARE pipestate_waits AS SELECT reader.pid, CASE l.locktype WHEN 'relation' THEN l.mode END, <<began>> FROM pg_locks l
CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS reader (pid)
WHERE NOT l.granted AND reader.pid = ANY (ARRAY[<<pids>>]::int[])

-- name: returned_columns
SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'pg_temp.pipestate_columns'::regclass AND attnum > 0 ORDER BY attnum

-- name: required_columns
-- A BEFORE INSERT trigger may fill columns that the statement omits.
SELECT a.attnum, a.attname::text FROM pg_attribute a
WHERE a.attrelid = to_regclass(format('%I.%I', CAST(:schema AS text), CAST(:table AS text)))
AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND a.attgenerated = ''
AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = a.attrelid AND t.tgtype & 7 = 7 AND t.tgenabled <> 'D')

-- name: statements
SELECT DISTINCT query FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1

-- name: table_columns
SELECT format('%I.%I', n.nspname, c.relname),
CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,
coalesce(string_agg(quote_ident(a.attname), ', ' ORDER BY a.attname), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
AND a.attname !~ '^_pipestate_[0-9]+_'
WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT LIKE 'pg\_%'
AND n.nspname NOT IN ('information_schema', 'pipestate') AND n.nspname NOT LIKE 'pipestate\_archive%' GROUP BY 1, 2 ORDER BY 2

-- name: details
-- Properties that a restored object may lack and that its definition omits.
WITH place AS (SELECT oid, nspname, CASE WHEN nspname = 'public' THEN '' ELSE nspname || '.' END AS prefix
FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'pipestate')
AND nspname NOT LIKE 'pipestate\_archive%')
SELECT 'replica identity of ' || n.prefix || c.relname, CASE c.relreplident WHEN 'f' THEN 'full' WHEN 'n'
THEN 'nothing' ELSE (SELECT 'index ' || i.indexrelid::regclass::text FROM pg_index i WHERE i.indrelid = c.oid
AND i.indisreplident) END FROM pg_class c JOIN place n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.relreplident <> 'd'
UNION ALL SELECT 'comment on index ' || n.prefix || c.relname, d.description FROM pg_class c
JOIN place n ON n.oid = c.relnamespace JOIN pg_description d ON d.objoid = c.oid AND d.objsubid = 0
AND d.classoid = 'pg_class'::regclass WHERE c.relkind IN ('i', 'I')
UNION ALL SELECT 'rights on function ' || p.oid::regprocedure::text, concat_ws(', ',
'owner ' || pg_get_userbyid(p.proowner), p.proacl::text) FROM pg_proc p JOIN place n ON n.oid = p.pronamespace
WHERE p.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')

-- name: sequence_positions
SELECT CASE WHEN schemaname = 'public' THEN '' ELSE schemaname || '.' END || sequencename, last_value, increment_by
FROM pg_sequences WHERE last_value IS NOT NULL AND schemaname NOT LIKE 'pipestate%'

-- name: left_out_of_drift
-- Indexes of the version table, and sequences of hidden columns: a purge drops these with their columns.
SELECT n.nspname::text, CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'index' END, c.relname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = to_regclass(:versions))
   OR c.oid IN (SELECT d.objid FROM pg_depend d
      JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i') AND a.attname ~ '^_pipestate_[0-9]+_')

-- name: written_tables
-- Partitions are written through their parent table; archives are read-only. Writers are other roles that own a
-- table, may write to it or have a policy on it, if our role may act as them: a member may lack the right to SET ROLE.
SELECT format('%I.%I', n.nspname, c.relname) AS quoted, c.relkind IN ('r', 'p') AS has_places, own.*,
    coalesce((SELECT array_agg(quote_ident(a.attname) ORDER BY k.place) FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
        WHERE i.indrelid = c.oid AND i.indisprimary), '{}') AS key,
    coalesce((SELECT json_agg(json_build_array(quote_ident(r.rolname),
            array(SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
                AND NOT a.attisdropped AND has_column_privilege(r.oid, c.oid, a.attnum, 'UPDATE')),
            array(SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
                AND NOT a.attisdropped AND has_column_privilege(r.oid, c.oid, a.attnum, 'INSERT'))) ORDER BY r.rolname)
        FROM pg_roles r WHERE c.relkind IN ('r', 'p') AND NOT r.rolsuper AND r.rolname <> current_user
          AND (r.oid = c.relowner OR r.oid IN (SELECT acl.grantee FROM aclexplode(c.relacl) AS acl
                WHERE acl.privilege_type IN ('INSERT', 'UPDATE', 'DELETE'))
            OR r.oid IN (SELECT unnest(p.polroles) FROM pg_policy p WHERE p.polrelid = c.oid))
          AND pg_has_role(r.oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER'
            ELSE 'SET' END)), '[]') AS writers
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(f.name ORDER BY f.place), '{}') AS columns,
        coalesce(array_agg(f.name ORDER BY f.place) FILTER (WHERE NOT f.generated), '{}') AS inserts,
        coalesce(array_agg(f.name ORDER BY f.place) FILTER (WHERE NOT f.generated AND NOT f.identity), '{}') AS updates
    FROM (SELECT quote_ident(a.attname) AS name, a.attnum AS place, a.attgenerated <> '' AS generated,
            a.attidentity = 'a' AS identity
        FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname !~ '^_pipestate_[0-9]+_') f) own
WHERE c.relkind IN ('r', 'p', 'v') AND c.relpersistence <> 't' AND NOT c.relispartition
  AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pipestate\_archive%'
