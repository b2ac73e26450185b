-- What a database is made of, as `name, definition`: one row an object, without what pipestate keeps for itself.
-- The order of a table's columns is left out: a column that goes and comes back stands at the end.
WITH relation AS (
  SELECT c.*, CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'pipestate')
    AND n.nspname NOT LIKE 'pipestate\_archive%' AND c.relpersistence <> 't'
)
SELECT kind || ' ' || name AS name, definition FROM (
  SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' ELSE 'table' END
           AS kind, name,
         concat_ws(', ', 'owner ' || pg_get_userbyid(relowner), 'rights ' || relacl::text,
           CASE WHEN relrowsecurity THEN 'row level security' END, reloptions::text, obj_description(oid, 'pg_class'),
           CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) END) AS definition
  FROM relation WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT 'column', r.name || '.' || a.attname,
         concat_ws(', ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
           'default ' || pg_get_expr(d.adbin, d.adrelid), nullif('identity ' || a.attidentity::text, 'identity '),
           nullif('generated ' || a.attgenerated::text, 'generated '), 'rights ' || a.attacl::text,
           'collation ' || nullif(a.attcollation, t.typcollation)::regcollation::text, col_description(r.oid, a.attnum))
  FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  WHERE r.relkind IN ('r', 'p', 'f')
  UNION ALL
  SELECT 'index', r.name,
         pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
  FROM relation r JOIN pg_index i ON i.indexrelid = r.oid
  UNION ALL
  SELECT 'constraint', r.name || '.' || c.conname, pg_get_constraintdef(c.oid)
  FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
  UNION ALL
  SELECT 'trigger', r.name || '.' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT 'policy', p.schemaname || '.' || p.tablename || '.' || p.policyname,
         concat_ws(' ', p.permissive, p.roles::text, p.cmd, p.qual, p.with_check)
  FROM pg_policies p
  UNION ALL
  SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'pipestate')
    AND n.nspname NOT LIKE 'pipestate\_archive%'
    AND p.prokind IN ('f', 'p') AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
  UNION ALL
  SELECT 'type', t.oid::regtype::text,
         coalesce((SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
                  format_type(t.typbasetype, t.typtypmod))
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
  WHERE t.typtype IN ('e', 'd') AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
  UNION ALL
  SELECT 'schema', nspname::text, concat_ws(', ', 'owner ' || pg_get_userbyid(nspowner), 'rights ' || nspacl::text)
  FROM pg_namespace
  WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'pipestate')
    AND nspname NOT LIKE 'pipestate\_archive%'
) AS object ORDER BY 1
