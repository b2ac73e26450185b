-- name: others_may_create
SELECT pg_catalog.string_agg(DISTINCT n.nspname::text, ', ' ORDER BY n.nspname::text)
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (pg_catalog.current_schemas(false))
  AND a.privilege_type = 'CREATE'
  AND (a.grantee = 0::oid OR (NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
       AND NOT <<is_member>>))

-- name: impostors
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
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT <<is_member>>)
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted

-- name: may_have_impostors
SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid >= 16384::oid AND p.proowner <> <<me>>)
  OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384::oid AND o.oprowner <> <<me>>)
  OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid >= 16384::oid AND c.relowner <> <<me>>)
  OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = current_user AND n.nspowner <> <<me>>)

-- name: session_safety
SELECT pg_catalog.current_setting('is_superuser') = 'on', pg_catalog.pg_is_in_recovery(),
       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())),
       (<<others_may_create>>), (<<may_have_impostors>>)
