-- name: others_may_create
SELECT string_agg(DISTINCT n.nspname::text, ', ' ORDER BY n.nspname::text)
FROM pg_namespace n
CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (<<schemas>>) AND a.privilege_type = 'CREATE'
  AND (a.grantee = 0 OR (NOT r.rolsuper AND r.rolname <> 'pg_database_owner' AND NOT <<is_member>>))

-- name: impostors
-- Its tokens: comments and texts are left out; an operator ends before a sign. Some words stand for operators.
WITH token (name) AS (
  SELECT lower(t[1]) FROM regexp_matches(
    regexp_replace(<<query>>, E'--[^\n]*|/\\*([^*]|\\*[^/])*\\*/|''[^'']*''', ' ', 'g'), E'(\\w+|[-+*/<>=~!@#%^&|`?]+)', 'g') AS t
), used (name) AS (
  SELECT name FROM token UNION SELECT rtrim(name, '+-') FROM token
  UNION SELECT unnest(string_to_array(w.operators, ' ')) FROM token JOIN (VALUES
    ('between', '< <= > >='), ('case', '='), ('distinct', '='), ('ilike', '~~* !~~*'), ('in', '= <>'), ('like', '~~ !~~'),
    ('natural', '='), ('nullif', '='), ('similar', '~ !~'), ('using', '='), ('!=', '<>')) AS w (word, operators) ON w.word = token.name
), place AS (
  -- Who owns a schema may put anything there, but for a schema with this role's name, which "$user" finds.
  SELECT n.oid, n.nspname, s.number, CASE WHEN n.nspname <> current_user THEN n.nspowner END AS owner FROM unnest(<<schemas>>) WITH ORDINALITY AS s (name, number)
  JOIN pg_namespace n ON n.nspname = s.name AND n.nspname <> 'pg_catalog'
), found AS (
  SELECT p.proname AS name, p.oid::regprocedure::text AS what, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384
  WHERE EXISTS (SELECT FROM pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11)
    AND NOT EXISTS (SELECT FROM pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11 AND c.proargtypes = p.proargtypes)
  UNION ALL
  SELECT o.oprname, 'operator ' || o.oid::regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384
  WHERE EXISTS (SELECT FROM pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11)
    AND NOT EXISTS (SELECT FROM pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11
                    AND (c.oprleft, c.oprright) = (o.oprleft, o.oprright))
  UNION ALL
  SELECT c.relname, format('%I.%I', place.nspname, c.relname), c.relowner, place.owner
  FROM place JOIN pg_class c ON c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  WHERE EXISTS (SELECT FROM pg_class o JOIN place AS later ON later.oid = o.relnamespace
                WHERE o.relname = c.relname AND later.number > place.number)
     OR place.nspname = current_user
)
SELECT string_agg(found.what || ' of ' || r.rolname, ', ' ORDER BY found.what)
FROM found JOIN pg_roles r ON r.oid = found.owner
WHERE NOT r.rolsuper AND r.rolname <> current_user
  AND r.oid IS DISTINCT FROM found.place_owner
  AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
  AND (current_setting('is_superuser') = 'on' OR NOT <<is_member>>)
  AND (<<query>> IS NULL OR lower(found.name) IN (SELECT name FROM used))

-- name: may_be_impostors
SELECT EXISTS (SELECT FROM pg_proc p WHERE p.oid >= 16384 AND p.proowner <> <<me>>)
  OR EXISTS (SELECT FROM pg_operator o WHERE o.oid >= 16384 AND o.oprowner <> <<me>>)
  OR EXISTS (SELECT FROM pg_class c WHERE c.oid >= 16384 AND c.relowner <> <<me>>)

-- name: session_safety
SELECT current_setting('is_superuser') = 'on', pg_is_in_recovery(),
       date_part('epoch', clock_timestamp() - pg_last_xact_replay_timestamp()), (<<others_may_create>>), (<<may_be_impostors>>)
