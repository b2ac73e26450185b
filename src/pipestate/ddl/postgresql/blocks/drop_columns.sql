-- Write down what hangs on the columns, then drop them with the triggers that kept the copy true. The caller
-- holds the lock.
--
-- the_table text, the_columns text[], the_name text, the_revision text, the_copy text,
-- the_keep text, the_inserted text, the_updated text, watched boolean (the copy was made before the lock)
DECLARE
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  numbers smallint[];
  going oid[];  -- the indexes that go with the columns
  columns jsonb;
  constraints jsonb;
  indexes jsonb;
  statistics jsonb;
  sequences jsonb;
  grants jsonb;
  marks jsonb;
  todo text;
  sequence text;
  held boolean;
BEGIN
  SELECT array_agg(attnum), string_agg(format('DROP COLUMN %I', attname), ', ' ORDER BY attnum) INTO numbers, todo
    FROM pg_attribute WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped;
  IF todo IS NULL THEN RETURN; END IF;
  IF watched AND 2 > (SELECT count(*) FROM pg_trigger WHERE tgrelid = relation AND tgenabled = 'A'
                        AND tgname IN (the_inserted, the_updated)) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the triggers that keep %s true are gone or disabled: DROP TABLE %1$s, then run the same again', the_copy);
  END IF;
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attnum = ANY (numbers) AND attname NOT IN (
               SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(the_copy) AND NOT attisdropped))
      OR NOT watched AND the_copy <> ALL (string_to_array(coalesce(current_setting('pipestate.copied', true), ''), E'\n')) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s are not all in %s as they are now, so none is dropped: call archive_columns for the same columns first',
      array_to_string(the_columns, ', '), the_table, the_copy);
  END IF;
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

  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', the_copy) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, revision, origin, aside, definition)
  SELECT 'columns', the_name, the_revision, relnamespace::regnamespace::text, the_copy, jsonb_build_object(
           'held', held, 'columns', columns, 'constraints', coalesce(constraints, '[]'), 'indexes', coalesce(indexes, '[]'),
           'marks', coalesce(marks, '[]'), 'statistics', coalesce(statistics, '[]'),
           'sequences', coalesce(sequences, '[]'), 'grants', coalesce(grants, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;

  FOR sequence IN SELECT s ->> 'name' FROM jsonb_array_elements(sequences) AS s LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY NONE', sequence);  -- it would go with its column
  END LOOP;
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_inserted, relation);
  EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', the_updated, relation);
  EXECUTE format('DROP FUNCTION IF EXISTS %s()', the_keep);
  EXECUTE format('ALTER TABLE %s %s', relation, todo);
  PERFORM set_config('search_path', path, true);
END
