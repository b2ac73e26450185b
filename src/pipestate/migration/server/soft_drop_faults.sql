-- A table, its partitions and the tables that inherit from it, the table itself first.
CREATE OR REPLACE FUNCTION pipestate.family(the_relation regclass) RETURNS SETOF regclass
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE member (relation, depth) AS (
    SELECT the_relation, 0
    UNION ALL
    SELECT inhrelid::regclass, depth + 1 FROM member JOIN pg_inherits ON inhparent = member.relation)
  SELECT relation FROM member GROUP BY relation ORDER BY max(depth), relation;
END
$$;

-- The numbers of these columns in a table; another member of the family may number them otherwise.
CREATE OR REPLACE FUNCTION pipestate.numbers_of(the_relation regclass, the_columns text[]) RETURNS smallint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT coalesce(array_agg(attnum ORDER BY attnum), '{}') FROM pg_attribute
   WHERE attrelid = the_relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
END
$$;

-- List the foreign keys of a table, or those that use one of these columns.
CREATE OR REPLACE FUNCTION pipestate.foreign_keys(the_relation regclass, the_columns text[]) RETURNS SETOF oid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT oid FROM pg_constraint WHERE contype = 'f' AND conrelid = the_relation
     AND (the_columns IS NULL OR conkey && pipestate.numbers_of(the_relation, the_columns))
$$;

-- Name the tables at the other end of these keys.
CREATE OR REPLACE FUNCTION pipestate.referenced(the_relation regclass, the_columns text[]) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT confrelid::regclass::text FROM pg_constraint WHERE oid IN (SELECT pipestate.foreign_keys(the_relation, the_columns))
$$;

-- Every column that an index reads: as a key, included, in an expression, in its predicate.
CREATE OR REPLACE FUNCTION pipestate.index_columns(the_index regclass) RETURNS smallint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT ARRAY(SELECT DISTINCT number FROM (
    SELECT unnest(indkey::smallint[]) FROM pg_index WHERE indexrelid = the_index
    UNION ALL
    SELECT refobjsubid::smallint FROM pg_index JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = the_index
       AND refclassid = 'pg_class'::regclass AND refobjid = indrelid
     WHERE indexrelid = the_index) AS used (number) WHERE number <> 0));
END
$$;

-- Views, rules, policies and function bodies that read these columns of a table.
CREATE OR REPLACE FUNCTION pipestate.readers_of(the_relation regclass, the_numbers smallint[]) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT CASE WHEN ev_class = the_relation THEN format('rule %s of %s', rulename, ev_class::regclass)
              ELSE format('view %s', ev_class::regclass) END
    FROM pg_depend JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
   WHERE refclassid = 'pg_class'::regclass AND refobjid = the_relation AND refobjsubid = ANY (the_numbers)
  UNION
  SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
   WHERE refclassid = 'pg_class'::regclass AND refobjid = the_relation AND refobjsubid = ANY (the_numbers)
     AND deptype = 'n' AND classid IN ('pg_policy'::regclass, 'pg_proc'::regclass);
END
$$;

-- Say whether a trigger would fail every write without this column: its arguments name it; or its function names it as
-- new.x or old.x, as (...).x, beside EXECUTE or a transition table, or inserts whole rows, which get another column.
CREATE OR REPLACE FUNCTION pipestate.trigger_names(the_trigger pg_trigger, the_column text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  body text := (SELECT prosrc FROM pg_proc WHERE oid = the_trigger.tgfoid);
  word text := regexp_replace(the_column, '([^[:alnum:]_])', '\\\1', 'g');
  has_transition boolean := the_trigger.tgnewtable IS NOT NULL OR the_trigger.tgoldtable IS NOT NULL;
  plain text := regexp_replace(body, '\m(?!values\M)\w+\s*\(\s*(new|old)\s*\.\s*\*\s*\)', '', 'gi');  -- to_jsonb(new.*)
BEGIN
  RETURN position('\x00'::bytea || convert_to(the_column, getdatabaseencoding()) || '\x00'::bytea
                  IN '\x00'::bytea || the_trigger.tgargs) > 0
      OR body ~* ('(\m(new|old)|\))\s*\.\s*"?' || word || '"?\M')
      OR (has_transition OR body ~* '\mexecute\M') AND body ~* ('\m' || word || '\M')
      OR plain ~* '\minsert\M[^;]*\m(new|old)\s*\.\s*\*'
      OR has_transition AND plain ~* '\minsert\M[^;]*(\.|\mselect|,)\s*\*';
END
$$;

-- Why this role could not restore these columns, or the whole table without any; NULL where it could: tables and unique
-- indexes need CREATE in their schema, foreign keys need the table at their other end.
CREATE OR REPLACE FUNCTION pipestate.rights_fault(the_relation regclass, the_columns text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  place regnamespace := (SELECT relnamespace FROM pg_class WHERE oid = the_relation);
  found text;
BEGIN
  IF the_relation IS NULL THEN RETURN NULL; END IF;
  SELECT string_agg(DISTINCT confrelid::regclass::text, ', ') INTO found FROM pg_constraint
   WHERE contype = 'f' AND conrelid IN (SELECT pipestate.family(the_relation))
     AND (the_columns IS NULL OR conkey && pipestate.numbers_of(conrelid, the_columns))
     AND NOT (has_any_column_privilege(confrelid, 'REFERENCES') AND has_table_privilege(confrelid, 'UPDATE, DELETE, TRUNCATE'));
  IF found IS NOT NULL THEN
    RETURN format('a foreign key of %s could not be restored, because %s may not lock and reference the other table: GRANT '
      'REFERENCES, UPDATE ON %s TO %I', the_relation, current_user, found, current_user);
  END IF;
  IF NOT has_schema_privilege(place, 'CREATE') AND (the_columns IS NULL OR EXISTS (
       SELECT FROM jsonb_array_elements(pipestate.removed_with(the_relation, the_columns, '{}', '{}')) AS removed
        WHERE removed ->> 'kind' IN ('unique', 'exclusion'))) THEN
    RETURN format('%s could not be restored, because %s may not create in the schema %s: GRANT CREATE ON SCHEMA %s TO %I',
      CASE WHEN the_columns IS NULL THEN the_relation::text ELSE 'an index of ' || the_relation END, current_user, place, place,
      current_user);
  END IF;
  RETURN NULL;
END
$$;

-- Why these columns cannot be soft-dropped, in one sentence with names; NULL where they can.
CREATE OR REPLACE FUNCTION pipestate.columns_fault(
  the_relation regclass, the_columns text[], the_triggers text[], is_kept boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  listed text := array_to_string(the_columns, ', ');
  numbers smallint[] := pipestate.numbers_of(the_relation, the_columns);
  found text;
  line record;
BEGIN
  IF the_relation IS NULL THEN RETURN NULL; END IF;
  IF (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = the_relation) THEN
    RETURN format('%s is not a table', the_relation);
  END IF;

  -- What the server itself could not rename, or drop.
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = the_relation AND attnum = ANY (numbers) AND attinhcount > 0;
  IF found IS NOT NULL THEN
    RETURN format('%s inherits %s from %s: name that table in the contract', the_relation, found,
      (SELECT string_agg(inhparent::regclass::text, ', ') FROM pg_inherits WHERE inhrelid = the_relation));
  END IF;
  SELECT string_agg(format('%s of %s', attname, attrelid::regclass), ', ') INTO found FROM pg_attribute
   WHERE attrelid IN (SELECT pipestate.family(the_relation)) AND attname = ANY (the_columns) AND attinhcount > 1;
  IF found IS NOT NULL THEN
    RETURN format('%s comes from several parents, so the server cannot rename it: end one inheritance first', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid IN (SELECT pipestate.family(the_relation)) AND reloftype <> 0;
  IF found IS NOT NULL THEN
    RETURN format('%s is a typed table, whose columns belong to its type: ALTER TABLE ... NOT OF first', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid IN (SELECT pipestate.family(the_relation)) AND relkind = 'f';
  IF found IS NOT NULL THEN
    RETURN format('%s is a foreign table in the family of %s: detach it first', found, the_relation);
  END IF;
  SELECT string_agg(DISTINCT format('%s of %s', conname, conrelid::regclass), ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_constraint ON conrelid = member AND contype = 'p'
   WHERE pipestate.index_columns(conindid) && pipestate.numbers_of(member, the_columns);
  IF found IS NOT NULL THEN
    RETURN format('%s is part of the primary key %s: give the table another key first', listed, found);
  END IF;
  SELECT string_agg(DISTINCT partrelid::regclass::text, ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_partitioned_table ON partrelid = member
   WHERE partattrs::smallint[] && pipestate.numbers_of(member, the_columns)
      OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = member AND deptype = 'i'
                    AND objsubid = ANY (pipestate.numbers_of(member, the_columns))
                    AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = 0);
  IF found IS NOT NULL THEN
    RETURN format('%s is part of the partition key of %s', listed, found);
  END IF;

  -- What depends on the columns, and would go on without them or stop.
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM pipestate.family(the_relation) AS member
   CROSS JOIN LATERAL pipestate.numbers_of(member, the_columns) AS going
   CROSS JOIN LATERAL (
    SELECT pipestate.readers_of(member, going)
    UNION
    SELECT pg_describe_object(classid, objid, 0) FROM pg_depend JOIN pg_trigger t ON t.oid = objid
     WHERE classid = 'pg_trigger'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = member
       AND refobjsubid = ANY (going) AND tgname <> ALL (the_triggers) AND NOT tgisinternal
    UNION  -- a column that is computed from one that stays hidden goes on; another one is refused
    SELECT format('computed column %s of %s', attname, member) FROM pg_depend
      JOIN pg_attribute ON attrelid = member AND attnum = objsubid
     WHERE classid = 'pg_class'::regclass AND objid = member AND objsubid > 0 AND objsubid <> ALL (going)
       AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = ANY (going)
    UNION
    SELECT format('computed column %s of %s', attname, member) FROM pg_depend
      JOIN pg_attrdef d ON classid = 'pg_attrdef'::regclass AND d.oid = objid
      JOIN pg_attribute ON attrelid = member AND attnum = adnum AND attgenerated <> ''
     WHERE adrelid = member AND adnum <> ALL (going)
       AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = ANY (going)
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = member AND confkey && going) AS dependents (what);
  IF found IS NOT NULL THEN
    RETURN format('%s of %s cannot be dropped while others depend on it: %s. Drop or change them first%s',
      listed, the_relation, found, CASE WHEN found LIKE '%trigger%' THEN
        '; a trigger of this table may be dropped with the columns: drop_triggers=[...]' ELSE '' END);
  END IF;
  FOR line IN
    SELECT tgname, tgrelid::regclass AS relation, tgfoid::regprocedure AS function, going
      FROM pg_trigger t CROSS JOIN unnest(the_columns) AS going
     WHERE tgrelid IN (SELECT pipestate.family(the_relation)) AND NOT tgisinternal AND tgname <> ALL (the_triggers)
       AND pipestate.trigger_names(t, going)
     ORDER BY tgname, going
  LOOP
    RETURN format('the trigger %s of %s runs %s, which names %s or inserts whole rows: every write would fail without that '
      'column. Drop the trigger with it: drop_triggers=[%L]', line.tgname, line.relation, line.function, line.going,
      line.tgname::text);
  END LOOP;
  SELECT string_agg(format('column %I of %s', attname, attrelid::regclass), ', ') INTO found FROM (
    WITH RECURSIVE row_types (type) AS (
      SELECT reltype FROM pg_class WHERE oid IN (SELECT pipestate.family(the_relation))
      UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
      SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
        FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
        LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
       WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
    SELECT a.attname, a.attrelid FROM row_types
      JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
           AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
      JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
      JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid AND NOT a.attisdropped) AS holding;
  IF found IS NOT NULL THEN
    RETURN format('%s stores whole rows of %s: change that column first', found, the_relation);
  END IF;
  IF NOT is_kept THEN RETURN NULL; END IF;

  -- What a hidden column could not stand.
  SELECT string_agg(format('%s (%s)', attname, format_type(atttypid, atttypmod)), ', ') INTO found
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
   WHERE attrelid = the_relation AND attnum = ANY (numbers) AND typtype = 'd' AND attgenerated = ''
     AND pipestate.rejects_null(atttypid);
  IF found IS NOT NULL THEN
    RETURN format('the domain of %s rejects NULL, so new rows of %s could not be written: give the column the type below '
      'that domain, or write keep=False', found, the_relation);
  END IF;
  SELECT string_agg(format('ALTER COLUMN %I DROP IDENTITY, ALTER COLUMN %1$I DROP NOT NULL', attname), ', ') INTO found
    FROM pg_attribute WHERE attrelid = the_relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RETURN format('%s is an identity column, which stays NOT NULL, so a copied row could not be inserted. In an earlier revision run ALTER TABLE %s %s; or write keep=False', listed, the_relation, found);
  END IF;
  SELECT string_agg(format('%s of %s', indexrelid::regclass, member), ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_index ON indrelid = member AND indisreplident
   WHERE pipestate.index_columns(indexrelid) && pipestate.numbers_of(member, the_columns);
  IF found IS NOT NULL THEN
    RETURN format('%s is in the replica identity index %s: choose another replica identity first', listed, found);
  END IF;
  SELECT string_agg(member::text, ', ') INTO found FROM pipestate.family(the_relation) AS member
   WHERE (SELECT max(attnum) FROM pg_attribute WHERE attrelid = member) >= 1600;
  IF found IS NOT NULL THEN
    RETURN format('%s has 1,600 columns, dropped ones included, and no room for the mark of a soft drop: write keep=False',
      found);
  END IF;
  found := pipestate.publications_of(the_relation, numbers);
  IF found IS NOT NULL THEN
    RETURN format('%s is published by %s, whose subscribers would stop at a renamed column: take it out of the publication, '
      'or write keep=False', the_relation, found);
  END IF;
  RETURN CASE WHEN is_kept THEN pipestate.rights_fault(the_relation, the_columns) END;
END
$$;

-- Say whether a domain refuses NULL: by NOT NULL, or by one of its CHECKs.
CREATE OR REPLACE FUNCTION pipestate.rejects_null(the_type oid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('SELECT NULL::%s', format_type(the_type, NULL));
  RETURN false;
EXCEPTION WHEN OTHERS THEN  -- a CHECK may call a function that fails
  RETURN true;
END
$$;

-- Name the publications that send these columns, or the mark of a soft drop, to subscribers; NULL where none does.
CREATE OR REPLACE FUNCTION pipestate.publications_of(the_relation regclass, the_numbers smallint[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT string_agg(DISTINCT t.pubname::text, ', ') FROM pg_publication_tables t
    JOIN pg_publication p ON p.pubname = t.pubname
   WHERE to_regclass(format('%I.%I', t.schemaname, t.tablename)) IN (
           SELECT pipestate.family(the_relation)
           UNION ALL SELECT relid FROM pg_partition_ancestors(the_relation))
     AND NOT EXISTS (  -- a list of columns, from 15 on, that has none of them; a list sends no mark
       SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = the_relation
          AND to_jsonb(r) ->> 'prattrs' IS NOT NULL
          AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(to_jsonb(r) -> 'prattrs') AS sent
                           WHERE sent::smallint = ANY (the_numbers))));
END
$$;

-- Why these tables cannot be dropped together, in one sentence with names; NULL where they can. `the_keys` are foreign
-- keys that the same contract drops with their columns.
CREATE OR REPLACE FUNCTION pipestate.tables_fault(the_relations regclass[], the_keys oid[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  going regclass[] := ARRAY(SELECT DISTINCT pipestate.family(one) FROM unnest(array_remove(the_relations, NULL)) AS one);
  found text;
BEGIN
  the_relations := array_remove(the_relations, NULL);
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid = ANY (the_relations) AND relkind NOT IN ('r', 'p');
  IF found IS NOT NULL THEN
    RETURN format('%s is not a table', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class WHERE oid = ANY (going) AND relkind = 'f';
  IF found IS NOT NULL THEN
    RETURN format('%s is a foreign table, which cannot be soft-dropped: detach it first', found);
  END IF;
  SELECT string_agg(format('%s of %s', inhrelid::regclass, inhparent::regclass), ', ') INTO found FROM pg_inherits
   WHERE inhrelid = ANY (the_relations) AND inhparent <> ALL (going);
  IF found IS NOT NULL THEN
    RETURN format('%s is a partition or a child: detach it in the revision (DETACH PARTITION, NO INHERIT), then drop it '
      'with a contract', found);
  END IF;
  SELECT string_agg(format('%s of %s', inhrelid::regclass, inhparent::regclass), ', ') INTO found
    FROM pg_inherits JOIN pg_class ON oid = inhrelid
   WHERE inhparent = ANY (the_relations) AND NOT relispartition AND inhrelid <> ALL (the_relations);
  IF found IS NOT NULL THEN
    RETURN format('%s inherits from a table that is dropped: name it in the contract, too', found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT CASE WHEN ev_class = ANY (going) THEN NULL ELSE format('view %s', ev_class::regclass) END FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = ANY (going)
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = ANY (going) AND deptype = 'n'
       AND (classid = 'pg_proc'::regclass
            OR classid = 'pg_policy'::regclass AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = ANY (going)))
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = ANY (going) AND conrelid <> ALL (going) AND oid <> ALL (the_keys)
       AND conparentid = 0
  ) AS dependents (what);
  IF found IS NOT NULL THEN
    RETURN format('%s cannot be dropped while others depend on it: %s. Drop or change them first',
      array_to_string(the_relations, ', '), found);
  END IF;
  RETURN NULL;
END
$$;
