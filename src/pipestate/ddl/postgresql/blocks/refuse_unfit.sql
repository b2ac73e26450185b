-- Refuse, before anything is changed, what could not come back as it was.
--
-- the_table text, the_columns text[] (NULL: the whole table), the_revision text,
-- must_exist boolean, the_others text[] (tables that lose columns in the same contract), applies boolean
DECLARE
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
  IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END
