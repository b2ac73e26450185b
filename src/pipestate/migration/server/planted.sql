-- Name functions and operators on the path that have a name of the server's own and another owner than a superuser,
-- this role or a group of it, the owner of the database or of their schema. Likewise tables and views in front of one of
-- the same name, and a schema with this role's name.
-- A check would find them instead of what was meant. Types are exact, so that nothing of theirs answers here.
CREATE OR REPLACE FUNCTION pipestate.planted(path text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT pipestate.read_only($query$
WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner,
         pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname) AS number
  FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'::name
), found AS MATERIALIZED (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11::oid)
  UNION ALL
  SELECT 'operator '::text || o.oid::pg_catalog.regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11::oid)
  UNION ALL
  SELECT pg_catalog.quote_ident(place.name::text) || '.'::text || pg_catalog.quote_ident(c.relname::text), c.relowner, place.owner
  FROM place JOIN pg_catalog.pg_class c ON c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class o JOIN place AS later ON later.oid = o.relnamespace
                WHERE o.relname = c.relname AND later.number > place.number)
  UNION ALL
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT (pg_catalog.pg_has_role(r.oid, 'USAGE'::text)
         OR pg_catalog.pg_has_role(r.oid, CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000
              THEN 'SET' ELSE 'MEMBER' END)))
)
SELECT pg_catalog.to_json(pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name)) FROM planted
$query$, path, '') #>> '{}'
$$;
