-- The tables of a database, as far as the guard compares them before and after a revision. One row each:
--   kind        r table, p partitioned table, c composite type, d domain, x extension
--   columns     a line a column: number, type, type modifier, 1 where an added default fills it, name
--   filenode    another one after TRUNCATE, or after a rewrite
--   rows        the planner's estimate; without one, what the statistics have counted, -1 where that is nothing
--   bytes       -1 where somebody holds the table exclusively: its size cannot be read without waiting
--   parent      of a partition; the base type of a domain
--   extension   that the table belongs to
-- Temporary tables, generated columns and the system's own tables are left out. `schemas` names those to read, with the
-- partitions of their tables; NULL: all.
CREATE OR REPLACE FUNCTION pipestate.catalogue(schemas text[] DEFAULT NULL) RETURNS TABLE (oid bigint, kind text, schema text, name text,
  filenode bigint, rows float8, bytes bigint, parent bigint, extension bigint, rowtype bigint, columns text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
SELECT c.oid::bigint AS oid,
       c.relkind::text AS kind,
       n.nspname::text AS schema,
       c.relname::text AS name,
       c.relfilenode::bigint AS filenode,
       CASE WHEN c.reltuples > 0 THEN c.reltuples
            ELSE coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), -1) END::float8 AS rows,
       CASE WHEN c.relkind <> 'r' THEN 0
            WHEN l.relation IS NOT NULL THEN -1
            ELSE coalesce(pg_relation_size(c.oid), 0) END AS bytes,
       coalesce(i.inhparent, 0)::bigint AS parent,
       coalesce(e.refobjid, 0)::bigint AS extension,
       c.reltype::bigint AS rowtype,
       coalesce(a.columns, '') AS columns
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
LEFT JOIN pg_depend e
  ON e.refclassid = 'pg_extension'::regclass AND e.deptype = 'e'
  AND e.classid = 'pg_class'::regclass AND e.objid = c.oid
LEFT JOIN (
  SELECT DISTINCT relation FROM pg_locks
  WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND pid <> pg_backend_pid()
    AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
) l ON l.relation = c.oid
CROSS JOIN LATERAL (
  SELECT string_agg(attnum || ' ' || atttypid || ' ' || atttypmod || ' ' || atthasmissing::int || ' '
           || translate(attname, E'\n', ' '), E'\n' ORDER BY attnum) AS columns
  FROM pg_attribute
  WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
) a
WHERE c.relkind IN ('r', 'p', 'c') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (schemas IS NULL OR n.nspname::text = ANY (schemas) OR c.oid IN (
    SELECT h.inhrelid FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhparent
    JOIN pg_namespace s ON s.oid = p.relnamespace WHERE s.nspname::text = ANY (schemas)))
UNION ALL
SELECT t.oid::bigint, 'd', n.nspname::text, t.typname::text, t.typtypmod, 0, 0, t.typbasetype::bigint, 0, 0, ''
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype = 'd' AND n.nspname <> 'information_schema'
UNION ALL
SELECT x.oid::bigint, 'x', '', x.extname::text, 0, 0, 0, 0, 0, 0, ''
FROM pg_extension x
$$;
