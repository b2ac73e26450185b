-- Describe the columns and what hangs on them, for whoever drops them in this transaction. That takes a while, so it is
-- done before the lock; under it, the same is done again only where the catalogue has changed in between. Its rows say
-- so by the transactions that wrote them.
--
-- the_table text, the_columns text[], the_copy text
DECLARE
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  numbers smallint[];
  going oid[];  -- the indexes that go with the columns
  columns jsonb;
  constraints jsonb;
  indexes jsonb;
  statistics jsonb;
  marks jsonb;
  sequences jsonb;
  grants jsonb;
  state text;
  known jsonb := coalesce(nullif(current_setting('pipestate.described', true), '')::jsonb, '{}');
BEGIN
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  PERFORM set_config('pipestate.described_anew', 'no', true);
  IF numbers = '{}' THEN RETURN; END IF;
  WITH indexes AS MATERIALIZED (SELECT indexrelid, xmin FROM pg_index WHERE indrelid = relation),
       rules AS MATERIALIZED (SELECT oid, xmin FROM pg_constraint WHERE conrelid = relation),
       extended AS MATERIALIZED (SELECT oid, xmin FROM pg_statistic_ext WHERE stxrelid = relation)
  SELECT string_agg(written, ' ' ORDER BY written) INTO state FROM (
    SELECT format('class %s %s', oid, xmin) FROM pg_class
     WHERE oid = relation OR oid IN (SELECT indexrelid FROM indexes)
    UNION ALL SELECT format('column %s %s', attnum, xmin) FROM pg_attribute WHERE attrelid = relation AND attnum > 0
    UNION ALL SELECT format('default %s %s', adnum, xmin) FROM pg_attrdef WHERE adrelid = relation
    UNION ALL SELECT format('index %s %s', indexrelid, xmin) FROM indexes
    UNION ALL SELECT format('rule %s %s', oid, xmin) FROM rules
    UNION ALL SELECT format('statistics %s %s', oid, xmin) FROM extended
    UNION ALL SELECT format('child %s %s', inhrelid, xmin) FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT format('parent %s %s', inhparent, xmin) FROM pg_inherits WHERE inhrelid = relation
    UNION ALL SELECT format('dependent %s %s %s %s', classid, objid, objsubid, xmin) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation
    UNION ALL SELECT format('comment %s %s %s', objoid, objsubid, xmin) FROM pg_description
     WHERE objoid IN (SELECT relation::oid UNION ALL SELECT indexrelid FROM indexes
                      UNION ALL SELECT oid FROM rules UNION ALL SELECT oid FROM extended)) AS seen (written);
  IF known -> the_copy ->> 'state' = state THEN RETURN; END IF;
  PERFORM set_config('pipestate.described_anew', 'yes', true);
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  going := ARRAY(SELECT indexrelid FROM pg_index WHERE indrelid = relation AND EXISTS (
                   SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = indexrelid
                      AND refobjid = relation AND refobjsubid = ANY (numbers)
                   UNION ALL
                   SELECT FROM pg_constraint WHERE conindid = indexrelid AND conrelid = relation AND conkey && numbers));

  -- A domain is left out at first: with NOT NULL, a CHECK or a DEFAULT it would not stand an empty column.
  SELECT jsonb_agg(jsonb_build_object(
           'name', attname,
           'number', attnum,
           'type', plain.type || plain.collation,
           'domain', CASE WHEN t.typtype = 'd' THEN format_type(atttypid, atttypmod) || plain.collation END,
           'default', pg_get_expr(adbin, adrelid),
           'not_null', attnotnull AND NOT EXISTS (
             SELECT FROM pg_constraint WHERE conrelid = relation AND contype = 'n' AND conkey = ARRAY[attnum]),
           'comment', col_description(relation, attnum),
           'settings', array_remove(ARRAY[
             CASE WHEN attstattarget >= 0 THEN format('SET STATISTICS %s', attstattarget) END,
             CASE WHEN attstorage <> t.typstorage THEN 'SET STORAGE ' || CASE attstorage
               WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END,
             -- PostgreSQL 13 does not have this one
             CASE to_jsonb(a) ->> 'attcompression'
               WHEN 'p' THEN 'SET COMPRESSION pglz' WHEN 'l' THEN 'SET COMPRESSION lz4' END,
             'SET (' || array_to_string(attoptions, ', ') || ')'], NULL)) ORDER BY attnum)
    INTO columns
    FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    CROSS JOIN LATERAL (
      WITH RECURSIVE base (oid, typmod, kind) AS (
        SELECT t.oid, atttypmod, t.typtype
        UNION ALL
        SELECT b.typbasetype, b.typtypmod, inner_type.typtype FROM base JOIN pg_type b ON b.oid = base.oid
          JOIN pg_type inner_type ON inner_type.oid = b.typbasetype WHERE base.kind = 'd')
      SELECT format_type(oid, typmod) AS type,
             CASE WHEN attcollation <> (SELECT typcollation FROM pg_type WHERE pg_type.oid = t.oid)
                  THEN ' COLLATE ' || attcollation::regcollation ELSE '' END AS collation
        FROM base WHERE kind <> 'd') AS plain
   WHERE attrelid = relation AND attnum = ANY (numbers);
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid), 'kind', contype,
           'columns', ARRAY(SELECT attname FROM unnest(conkey) WITH ORDINALITY AS k (number, n)
                            JOIN pg_attribute ON attrelid = relation AND attnum = number ORDER BY n),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))
           ORDER BY contype <> 'n', contype = 'f', conname)
    INTO constraints
    FROM pg_constraint WHERE conrelid = relation AND conkey && numbers AND contype NOT IN ('t');
  SELECT jsonb_agg(jsonb_build_object('name', indexrelid::regclass::text, 'definition', pg_get_indexdef(indexrelid),
           'constraint', (SELECT conname FROM pg_constraint
                          WHERE conindid = indexrelid AND conrelid = relation AND contype IN ('p', 'u', 'x')),
           'unique', indisunique AND indpred IS NULL AND am.amname = 'btree',
           'comment', obj_description(indexrelid, 'pg_class')))
    INTO indexes FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_am am ON am.oid = i.relam
   WHERE indexrelid = ANY (going);
  SELECT jsonb_agg(mark || quote_ident(relname))
    INTO marks FROM pg_index JOIN pg_class i ON i.oid = indexrelid
    CROSS JOIN LATERAL (VALUES ('CLUSTER ON ', indisclustered), ('REPLICA IDENTITY USING INDEX ', indisreplident))
      AS m (mark, is_set)
   WHERE indexrelid = ANY (going) AND is_set;
  SELECT jsonb_agg(jsonb_build_object('name', format('%s.%I', stxnamespace::regnamespace, stxname),
           'definition', pg_get_statisticsobjdef(oid), 'comment', obj_description(oid, 'pg_statistic_ext'),
           'target', nullif(stxstattarget, -1)))
    INTO statistics FROM pg_statistic_ext WHERE stxrelid = relation AND EXISTS (
      SELECT FROM pg_depend WHERE classid = 'pg_statistic_ext'::regclass AND objid = pg_statistic_ext.oid
         AND refobjid = relation AND refobjsubid = ANY (numbers));
  SELECT jsonb_agg(jsonb_build_object('name', objid::regclass::text, 'column', attname))
    INTO sequences
    FROM pg_depend JOIN pg_class ON oid = objid AND relkind = 'S'
    JOIN pg_attribute ON attrelid = relation AND attnum = refobjsubid
   WHERE classid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers) AND deptype = 'a';
  SELECT jsonb_agg(format('GRANT %s (%I) ON TABLE %s TO %s%s', privilege_type, attname, relation,
           CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
           CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END))
    INTO grants FROM pg_attribute, aclexplode(attacl) WHERE attrelid = relation AND attnum = ANY (numbers);
  PERFORM set_config('search_path', path, true);
  PERFORM set_config('pipestate.described', (known || jsonb_build_object(the_copy, jsonb_build_object(
    'state', state, 'columns', columns, 'constraints', coalesce(constraints, '[]'), 'indexes', coalesce(indexes, '[]'),
    'marks', coalesce(marks, '[]'), 'statistics', coalesce(statistics, '[]'),
    'sequences', coalesce(sequences, '[]'), 'grants', coalesce(grants, '[]'))))::text, true);
END
