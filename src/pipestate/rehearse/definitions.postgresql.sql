-- What a database is made of, as `name, definition, rights`: one row an object, without what pipestate keeps for itself.
-- The order of a table's columns is left out: a column that goes and comes back stands at the end.
-- With the setting pipestate.schema only that schema, whose objects have bare names then, in definitions too.
-- Whatever is not the server's own has an OID of 16384 or more, which spares reading all of the server's.
WITH place AS (
  SELECT n.*, CASE WHEN nspname = coalesce(wanted, 'public') THEN '' ELSE nspname || '.' END AS prefix,
         quote_ident(wanted) || '.' AS qualified
  FROM pg_namespace n, nullif(current_setting('pipestate.schema', true), '') AS wanted
  WHERE CASE WHEN wanted IS NULL
             THEN nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'pipestate')
                  AND nspname NOT LIKE 'pipestate\_archive%'
             ELSE nspname = wanted END
), relation AS (
  SELECT c.*, n.nspname, n.prefix || c.relname AS name
  FROM pg_class c JOIN place n ON n.oid = c.relnamespace WHERE c.oid >= 16384 AND c.relpersistence <> 't'
), comment AS (
  SELECT objoid, objsubid, description FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid >= 16384
)
SELECT kind || ' ' || name AS name,
       coalesce(replace(definition, (SELECT qualified FROM place LIMIT 1), ''), definition, '') AS definition, rights
FROM (
  SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' ELSE 'table' END
           AS kind, name,
         concat_ws(', ', CASE WHEN relrowsecurity THEN 'row level security' END, reloptions::text, c.description,
           CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) END) AS definition,
         concat_ws(', ', 'owner ' || pg_get_userbyid(relowner), 'rights ' || relacl::text) AS rights
  FROM relation LEFT JOIN comment c ON c.objoid = oid AND c.objsubid = 0
  WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT 'column', r.name || '.' || a.attname,
         concat_ws(', ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
           'default ' || pg_get_expr(d.adbin, d.adrelid), nullif('identity ' || a.attidentity::text, 'identity '),
           nullif('generated ' || a.attgenerated::text, 'generated '),
           'collation ' || nullif(a.attcollation, t.typcollation)::regcollation::text, c.description),
         'rights ' || a.attacl::text
  FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  LEFT JOIN comment c ON c.objoid = r.oid AND c.objsubid = a.attnum
  WHERE r.relkind IN ('r', 'p', 'f') AND a.attrelid >= 16384
  UNION ALL
  SELECT 'index', r.name,
         pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END, NULL
  FROM relation r JOIN pg_index i ON i.indexrelid = r.oid
  UNION ALL
  SELECT 'constraint', r.name || '.' || c.conname, pg_get_constraintdef(c.oid), NULL
  FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
  UNION ALL
  SELECT 'trigger', r.name || '.' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text, NULL
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT 'policy', r.name || '.' || p.polname,
         concat_ws(' ', CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
           CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
             ELSE 'ALL' END, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)),
         array(SELECT CASE each WHEN 0 THEN 'public' ELSE pg_get_userbyid(each)::text END
               FROM unnest(p.polroles) AS each ORDER BY 1)::text
  FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), NULL
  FROM pg_proc p JOIN place n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384 AND p.prokind IN ('f', 'p')
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
  UNION ALL
  SELECT 'type', t.oid::regtype::text,
         coalesce((SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
                  format_type(t.typbasetype, t.typtypmod)), NULL
  FROM pg_type t JOIN place n ON n.oid = t.typnamespace WHERE t.oid >= 16384 AND t.typtype IN ('e', 'd')
  UNION ALL
  SELECT 'schema', nspname::text, '', concat_ws(', ', 'owner ' || pg_get_userbyid(nspowner), 'rights ' || nspacl::text)
  FROM place WHERE qualified IS NULL
) AS object ORDER BY name COLLATE "C"
