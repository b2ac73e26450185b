-- Every object of a database with its definition, without pipestate's own, temporary ones and those of extensions.
-- `left_out` marks what drift does not compare: partitions and what belongs to them, which maintenance creates and drops,
-- and constraints that only repeat a column's NOT NULL (from 18 on).
-- The order of columns is left out: a column that is dropped and restored is the last one.
-- Objects that are not the server's own have an OID of 16384 or more.
-- The settings are those on which the wording of a definition depends.
CREATE OR REPLACE FUNCTION pipestate.schema_definitions()
RETURNS TABLE (schema text, kind text, name text, definition text, rights text, left_out boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET quote_all_identifiers = off
SET TimeZone = utc
SET DateStyle = iso, mdy
SET IntervalStyle = postgres
SET extra_float_digits = 1
SET bytea_output = hex
AS $definitions$
WITH place AS (
  SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace n
  WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'pipestate')
    AND n.nspname NOT LIKE 'pipestate\_archive%'
), member AS MATERIALIZED (
  SELECT d.classid, d.objid FROM pg_depend d WHERE d.deptype = 'e' AND d.objid >= 16384
), relation AS (
  SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.reloptions,
         c.relowner, c.relacl, c.relispartition, n.nspname
  FROM pg_class c JOIN place n ON n.oid = c.relnamespace
  WHERE c.oid >= 16384 AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'i', 'I')
    AND c.relname !~ '^_pipestate_[0-9]+_'
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = c.oid AND m.classid = 'pg_class'::regclass)
), comment AS (
  SELECT d.objoid, d.objsubid, d.description FROM pg_description d
  WHERE d.classoid = 'pg_class'::regclass AND d.objoid >= 16384
)
SELECT object.schema, object.kind, object.name, coalesce(object.definition, '') AS definition, object.rights, object.left_out
FROM (
  SELECT r.nspname::text AS schema,
         CASE r.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
                        WHEN 'f' THEN 'foreign table' ELSE 'table' END AS kind,
         r.relname::text AS name,
         concat_ws(', ', CASE WHEN r.relpersistence = 'u' THEN 'unlogged' END,
           CASE WHEN r.relrowsecurity THEN 'row level security' END,
           CASE WHEN r.relforcerowsecurity THEN 'force row level security' END, r.reloptions::text, c.description,
           CASE WHEN r.relkind = 'p' THEN 'partition by ' || pg_get_partkeydef(r.oid) END,
           CASE WHEN r.relkind IN ('v', 'm') THEN pg_get_viewdef(r.oid) END,
           (SELECT 'inherits ' || string_agg(i.inhparent::regclass::text, ', ' ORDER BY i.inhseqno)
            FROM pg_inherits i WHERE i.inhrelid = r.oid),
           (SELECT concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
                             s.seqcache, s.seqcycle) FROM pg_sequence s WHERE s.seqrelid = r.oid)
         ) AS definition,
         concat_ws(', ', 'owner ' || pg_get_userbyid(r.relowner), 'rights ' || r.relacl::text) AS rights,
         r.relispartition AS left_out
  FROM relation r LEFT JOIN comment c ON c.objoid = r.oid AND c.objsubid = 0
  WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT r.nspname, 'column', r.relname || '.' || a.attname,
         concat_ws(', ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
           'default ' || pg_get_expr(d.adbin, d.adrelid),
           nullif('identity ' || a.attidentity::text, 'identity '),
           nullif('generated ' || a.attgenerated::text, 'generated '),
           'collation ' || nullif(a.attcollation, t.typcollation)::regcollation::text, c.description),
         'rights ' || a.attacl::text, r.relispartition
  FROM relation r
  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  LEFT JOIN comment c ON c.objoid = r.oid AND c.objsubid = a.attnum
  WHERE r.relkind IN ('r', 'p', 'f') AND a.attrelid >= 16384 AND a.attname !~ '^_pipestate_[0-9]+_'
  UNION ALL
  SELECT r.nspname, 'index', r.relname,
         pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END,
         NULL, r.relispartition OR t.relispartition
  FROM relation r JOIN pg_index i ON i.indexrelid = r.oid JOIN pg_class t ON t.oid = i.indrelid
  UNION ALL
  SELECT r.nspname, 'constraint', r.relname || '.' || c.conname, pg_get_constraintdef(c.oid), NULL,
         r.relispartition OR c.conparentid <> 0 OR c.contype = 'n'
  FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
  WHERE c.conname !~ '^_pipestate_[0-9]+_'
  UNION ALL
  SELECT r.nspname, 'trigger', r.relname || '.' || t.tgname,
         pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text, NULL, r.relispartition
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT r.nspname, 'rule', r.relname || '.' || w.rulename, pg_get_ruledef(w.oid) || ' ' || w.ev_enabled::text,
         NULL, r.relispartition
  FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
  UNION ALL
  SELECT r.nspname, 'policy', r.relname || '.' || p.polname,
         concat_ws(' ', CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
           CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
             ELSE 'ALL' END, pg_get_expr(p.polqual, p.polrelid),
           pg_get_expr(p.polwithcheck, p.polrelid),
           array(SELECT CASE each WHEN 0 THEN 'public' ELSE pg_get_userbyid(each)::text END
                 FROM unnest(p.polroles) AS each ORDER BY 1)::text),
         NULL, r.relispartition
  FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT n.nspname, 'statistics', s.stxname, pg_get_statisticsobjdef(s.oid), NULL, t.relispartition
  FROM pg_statistic_ext s JOIN place n ON n.oid = s.stxnamespace
  JOIN pg_class t ON t.oid = s.stxrelid
  UNION ALL
  SELECT n.nspname, CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END,
         p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
         CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid)
              ELSE (SELECT concat_ws(' ', a.aggtransfn, a.aggfinalfn, format_type(a.aggtranstype, NULL), a.agginitval)
                    FROM pg_aggregate a WHERE a.aggfnoid = p.oid) END, NULL, false
  FROM pg_proc p JOIN place n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = p.oid AND m.classid = 'pg_proc'::regclass)
  UNION ALL
  SELECT n.nspname, 'type', t.typname,
         concat_ws(', ',
           (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
            FROM pg_enum e WHERE e.enumtypid = t.oid),
           (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped),
           (SELECT 'range of ' || format_type(g.rngsubtype, NULL) FROM pg_range g WHERE g.rngtypid = t.oid),
           CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
           CASE WHEN t.typtype = 'd' AND t.typnotnull THEN 'not null' END, 'default ' || t.typdefault,
           (SELECT string_agg(c.conname || ' ' || pg_get_constraintdef(c.oid), ', ' ORDER BY c.conname)
            FROM pg_constraint c WHERE c.contypid = t.oid AND c.contype = 'c')), NULL, false
  FROM pg_type t JOIN place n ON n.oid = t.typnamespace
  WHERE t.oid >= 16384 AND (t.typtype IN ('e', 'd', 'r')
      OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = t.oid AND m.classid = 'pg_type'::regclass)
  UNION ALL
  SELECT '', 'schema', n.nspname, '',
         concat_ws(', ', 'owner ' || pg_get_userbyid(n.nspowner), 'rights ' || n.nspacl::text), false
  FROM place n
  WHERE NOT EXISTS (SELECT FROM member m WHERE m.objid = n.oid AND m.classid = 'pg_namespace'::regclass)
  UNION ALL
  SELECT '', 'extension', e.extname, e.extversion, NULL, false FROM pg_extension e WHERE e.oid >= 16384
  UNION ALL
  SELECT '', 'event trigger', v.evtname, concat_ws(' ', v.evtevent, v.evtfoid::regproc, v.evtenabled::text, v.evttags::text),
         NULL, false
  FROM pg_event_trigger v
) AS object
$definitions$;

-- Say how digests are made: they are comparable on the same major version, with the same query.
CREATE OR REPLACE FUNCTION pipestate.schema_method() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $method$
SELECT 'PostgreSQL ' || current_setting('server_version_num')::integer / 10000 || ', '
       || left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 8)
FROM pg_proc p WHERE p.oid = 'pipestate.schema_definitions()'::regprocedure
$method$;

-- Record the schema, unless no row of a catalogue is newer than the last record and none is missing.
CREATE OR REPLACE PROCEDURE pipestate.record_schema(of_revision text, by_person text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $record$
BEGIN
WITH catalogue (name, rows, youngest) AS (
  SELECT 'pg_class', count(*), min(age(xmin)) FROM pg_class
  UNION ALL SELECT 'pg_attribute', count(*), min(age(xmin)) FROM pg_attribute
  UNION ALL SELECT 'pg_attrdef', count(*), min(age(xmin)) FROM pg_attrdef
  UNION ALL SELECT 'pg_constraint', count(*), min(age(xmin)) FROM pg_constraint
  UNION ALL SELECT 'pg_index', count(*), min(age(xmin)) FROM pg_index
  UNION ALL SELECT 'pg_inherits', count(*), min(age(xmin)) FROM pg_inherits
  UNION ALL SELECT 'pg_trigger', count(*), min(age(xmin)) FROM pg_trigger
  UNION ALL SELECT 'pg_rewrite', count(*), min(age(xmin)) FROM pg_rewrite
  UNION ALL SELECT 'pg_policy', count(*), min(age(xmin)) FROM pg_policy
  UNION ALL SELECT 'pg_sequence', count(*), min(age(xmin)) FROM pg_sequence
  UNION ALL SELECT 'pg_statistic_ext', count(*), min(age(xmin)) FROM pg_statistic_ext
  UNION ALL SELECT 'pg_proc', count(*), min(age(xmin)) FROM pg_proc
  UNION ALL SELECT 'pg_aggregate', count(*), min(age(xmin)) FROM pg_aggregate
  UNION ALL SELECT 'pg_type', count(*), min(age(xmin)) FROM pg_type
  UNION ALL SELECT 'pg_enum', count(*), min(age(xmin)) FROM pg_enum
  UNION ALL SELECT 'pg_range', count(*), min(age(xmin)) FROM pg_range
  UNION ALL SELECT 'pg_namespace', count(*), min(age(xmin)) FROM pg_namespace
  UNION ALL SELECT 'pg_description', count(*), min(age(xmin)) FROM pg_description
  UNION ALL SELECT 'pg_extension', count(*), min(age(xmin)) FROM pg_extension
  UNION ALL SELECT 'pg_event_trigger', count(*), min(age(xmin)) FROM pg_event_trigger
), now AS (
  SELECT jsonb_object_agg(c.name, c.rows) AS catalogues, min(c.youngest) AS youngest FROM catalogue c
), last AS (
  SELECT r.method, r.xid::xid AS xid, r.catalogues FROM pipestate.schema_record r ORDER BY r.id DESC LIMIT 1
)
INSERT INTO pipestate.schema_record (revision, actor, method, xid, catalogues, objects)
SELECT of_revision, by_person, pipestate.schema_method(), pg_snapshot_xmin(pg_current_snapshot())::xid::text,
       now.catalogues,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(d.schema, d.kind, d.name,
                          left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16))), '[]')
        FROM pipestate.schema_definitions() AS d WHERE NOT d.left_out)
FROM now
WHERE NOT EXISTS (
  SELECT FROM last
  WHERE last.method = pipestate.schema_method() AND last.catalogues = now.catalogues
    AND age(last.xid) >= 0 AND now.youngest > age(last.xid)
);
END
$record$;
