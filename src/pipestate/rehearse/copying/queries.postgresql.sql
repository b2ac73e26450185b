-- Queries of pipestate.rehearse.copying by name: `database/queries.py` reads them. <<name>> is filled in.

-- name: database
SELECT to_jsonb(about) FROM (
    SELECT current_setting('server_version_num')::int / 10000 AS version,
        session_user AS role,
        replace(current_setting('search_path'), '"$user"', quote_ident(session_user)) AS search_path,
        pg_database_size(d.oid) AS bytes,
        pg_is_in_recovery() AS in_recovery,
        pg_encoding_to_char(d.encoding) AS encoding,
        EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') AS has_public,
        (SELECT count(*) FROM pg_largeobject_metadata) AS large_objects,
        d AS database
    FROM pg_database d WHERE d.datname = current_database()) about

-- name: relations
SELECT c.oid::int8, format('%I.%I', n.nspname, c.relname), <<called>>, n.nspname::text,
    c.relkind = 'r',
    coalesce(pg_table_size(c.oid), 0),
    has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
    row_security_active(c.oid),
    c.relpersistence = 'u',
    EXISTS (SELECT FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attname = 'version_num' AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND <<own>>
ORDER BY 6 DESC, 2

-- name: sequences
SELECT format('%I.%I', n.nspname, c.relname), <<called>>,
    has_schema_privilege(n.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'SELECT'),
    s.seqincrement,
    (SELECT format('%I.%I', tn.nspname, t.relname) FROM pg_class t
        JOIN pg_namespace tn ON tn.oid = t.relnamespace WHERE t.oid = o.refobjid),
    (SELECT quote_ident(a.attname) FROM pg_attribute a
        WHERE a.attrelid = o.refobjid AND a.attnum = o.refobjsubid)
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_depend o ON o.classid = 'pg_class'::regclass AND o.objid = c.oid
    AND o.refclassid = 'pg_class'::regclass AND o.refobjsubid > 0 AND o.deptype IN ('a', 'i')
WHERE c.relpersistence <> 't' AND <<own>>
ORDER BY 1

-- name: extensions
-- Members of an extension, and their parts (the array of a type, the index of a table). Other objects that depend
-- on one of these need the extension.
WITH RECURSIVE part (extension, classid, objid) AS (
    SELECT refobjid, classid, objid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
    UNION
    SELECT part.extension, d.classid, d.objid FROM part JOIN pg_depend d
        ON d.refclassid = part.classid AND d.refobjid = part.objid AND d.deptype IN ('i', 'a'))
SELECT e.extname::text, ARRAY(
    SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM part JOIN pg_depend d ON d.refclassid = part.classid AND d.refobjid = part.objid
    WHERE part.extension = e.oid AND d.deptype = 'n' AND d.classid <> 'pg_extension'::regclass
    AND NOT EXISTS (SELECT FROM part other WHERE other.classid = d.classid AND other.objid = d.objid)
    ORDER BY 1 LIMIT 3)
FROM pg_extension e ORDER BY 1

-- name: extension_tables
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e'
WHERE c.relkind IN ('r', 'p', 'S') ORDER BY 1

-- name: materialized_views
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND c.relispopulated AND <<own>> ORDER BY c.oid

-- name: foreign_tables
SELECT <<called>>
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'f' AND <<own>> ORDER BY 1

-- name: roles
-- Roles that cannot log in: they own objects, hold grants and appear in policies. Owners of event
-- triggers become superusers, as PostgreSQL requires; managed servers have exceptions.
SELECT format('CREATE ROLE %I NOLOGIN', r.rolname)
    || CASE WHEN r.rolsuper OR r.oid IN (SELECT evtowner FROM pg_event_trigger) THEN ' SUPERUSER' ELSE '' END
    || CASE WHEN r.rolbypassrls THEN ' BYPASSRLS' ELSE '' END || CASE WHEN r.rolinherit THEN '' ELSE ' NOINHERIT' END
    || CASE WHEN r.rolcreaterole THEN ' CREATEROLE' ELSE '' END || CASE WHEN r.rolcreatedb THEN ' CREATEDB' ELSE '' END
FROM pg_roles r WHERE r.rolname NOT LIKE 'pg\_%' AND r.rolname <> 'postgres' ORDER BY 1

-- name: memberships
SELECT DISTINCT format('GRANT %I TO %I', r.rolname, m.rolname)
FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid
JOIN pg_roles m ON m.oid = a.member WHERE m.rolname NOT LIKE 'pg\_%' ORDER BY 1

-- name: database_settings
-- Settings for every session of this database. A missing library would end each session.
SELECT name, value FROM (
    SELECT split_part(setting, '=', 1) AS name, substr(setting, strpos(setting, '=') + 1) AS value
    FROM pg_db_role_setting s, unnest(s.setconfig) AS setting
    WHERE s.setrole = 0 AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())) q
WHERE name NOT LIKE '%preload_libraries' AND name NOT LIKE '%tablespace%' AND name <> 'search_path' ORDER BY 1

-- name: no_handlers
-- Foreign tables stay, for views and revisions that name them; reading one raises an error without a connection.
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT fdwname FROM pg_foreign_data_wrapper WHERE fdwhandler <> 0 LOOP
        EXECUTE format('ALTER FOREIGN DATA WRAPPER %I NO HANDLER', name);
    END LOOP;
END $$

-- name: take_over
-- A gate writes into a ledger only if it trusts the owner; the clone's superuser is in no other role.
DO $$ DECLARE wanted text; BEGIN
    FOR wanted IN
        SELECT format('SCHEMA %I', n.nspname) FROM pg_namespace n
         WHERE n.nspname IN ('pipestate', 'pipestate_archive')
        UNION ALL
        SELECT 'TABLE ' || c.oid::regclass::text FROM pg_class c
         WHERE c.relnamespace = to_regnamespace('pipestate') AND c.relkind IN ('r', 'v')
        UNION ALL
        SELECT 'ROUTINE ' || p.oid::regprocedure::text FROM pg_proc p
         WHERE p.pronamespace IN (to_regnamespace('pipestate'), to_regnamespace('pipestate_archive'))
    LOOP
        EXECUTE 'ALTER ' || wanted || ' OWNER TO CURRENT_USER';
    END LOOP;
END $$

-- name: behind_its_column
SELECT pg_catalog.setval(s.seqrelid, least(greatest(m.last, s.seqmin), s.seqmax))
FROM pg_catalog.pg_sequence s, (SELECT <<aggregate>>(<<column>>)::int8 AS last FROM <<table>>) m
WHERE s.seqrelid = <<sequence>>::regclass AND m.last IS NOT NULL
