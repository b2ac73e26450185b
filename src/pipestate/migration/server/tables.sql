-- Create a table with its indexes where there is none. {type of a.b} in its statement is the type of that column.
CREATE OR REPLACE PROCEDURE pipestate.create_table(
  the_table text, the_statement text, the_indexes json DEFAULT '{}', the_revision text DEFAULT NULL,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  statement text := the_statement;
  part text[];
BEGIN
  IF pipestate.resolve(the_table, path) IS NOT NULL THEN RETURN; END IF;
  FOR part IN SELECT regexp_matches(the_statement, '\{type of (\S+)\.([^.}]+)\}', 'g') LOOP
    statement := replace(statement, format('{type of %s.%s}', part[1], part[2]),
      (SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
       WHERE a.attrelid = pipestate.resolve(part[1], path) AND a.attname = part[2]));
  END LOOP;
  PERFORM pipestate.execute(statement, path);
  CALL pipestate.remember('table', the_table, the_revision);
  FOR part IN SELECT ARRAY[i.key, i.value] FROM json_each_text(the_indexes) AS i LOOP
    PERFORM pipestate.execute(part[2], path);
    CALL pipestate.remember('index', part[1], the_revision);
  END LOOP;
END $$;

-- Drop a table that a revision created, under a short lock on it and those that its foreign keys point at. One with rows
-- is put aside: the upgrade brings it back.
CREATE OR REPLACE PROCEDURE pipestate.drop_table(
  the_table text, the_name text, the_revision text, is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
BEGIN
  IF pipestate.is_ours('table', the_name, is_registered) AND relation IS NOT NULL THEN
    CALL pipestate.lock_relations(relation || pipestate.parents(relation), the_timeout_ms, the_patience_s, path);
    IF pipestate.is_true(format('EXISTS (SELECT FROM %s)', the_table), path) THEN
      IF to_regclass('pipestate.soft_drop') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
          '%s has rows, and soft-dropping it needs a ledger: run pipestate ledger install', the_table);
      END IF;
      CALL pipestate.soft_drop_tables(the_revision, NULL, ARRAY[the_name], ARRAY[relation], true);
    ELSE
      PERFORM pipestate.execute(format('DROP TABLE %s', relation), path);
    END IF;
  END IF;
  CALL pipestate.forget('table', the_name, is_registered);
END $$;

-- Bring back a table that a downgrade put aside; nothing happens where there is none.
CREATE OR REPLACE PROCEDURE pipestate.bring_back_table(
  the_name text, the_revision text, is_registered boolean DEFAULT true, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  schemas CONSTANT text[] := pipestate.schemas_of(path);
BEGIN
  IF EXISTS (SELECT FROM pipestate.soft_dropped(the_revision, 'table', the_name, schemas) AS d WHERE d.state <> 'absent') THEN
    CALL pipestate.restore_table(the_revision, the_name, schemas);
    CALL pipestate.validate_restored(the_revision, 'table', the_name, schemas);
    CALL pipestate.end_restore(the_revision, 'table', the_name, schemas);
    CALL pipestate.remember('table', the_name, CASE WHEN is_registered THEN the_revision END);
  END IF;
END $$;

-- Refuse a table of that name that is another one: a view, one without these columns, or whose key is not unique.
CREATE OR REPLACE PROCEDURE pipestate.require_shape(
  the_table text, the_key text, the_columns text[], may_be_partitioned boolean DEFAULT false, the_unique text[] DEFAULT '{}',
  the_times text[] DEFAULT '{}', path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  kind "char" := (SELECT c.relkind FROM pg_class c WHERE c.oid = relation);
  found_text text;
  fault text;
BEGIN
  IF relation IS NULL THEN RETURN; END IF;
  IF NOT (kind = 'r' OR (kind = 'p' AND may_be_partitioned)) THEN
    fault := format('%s exists, but is %s: rename it, or point the migrations at another database or search_path', the_table,
      CASE WHEN may_be_partitioned THEN 'no table (a view)' ELSE 'not a plain table (a view, or partitioned)' END);
  END IF;
  SELECT string_agg(c, ', ') INTO found_text FROM unnest(the_columns) AS c
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = c AND NOT a.attisdropped);
  IF fault IS NULL AND found_text IS NOT NULL THEN
    fault := format('%s exists, but without %s: this is a different table of the same name. Rename it, '
      'or point the migrations at another database or search_path', the_table, found_text);
  END IF;
  SELECT string_agg(format('of %s is %s', a.attname, format_type(a.atttypid, NULL)), ', ' ORDER BY a.attnum)
    INTO found_text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
   WHERE a.attrelid = relation AND a.attname = ANY (the_times) AND NOT a.attisdropped AND t.typcategory <> 'D';
  IF fault IS NULL AND found_text IS NOT NULL THEN  -- which zone a text means, nobody knows
    fault := format('%1$s exists, but the type %2$s, and the migrations compare them with the clock: give them a time''s, as in '
      'ALTER TABLE %1$s ALTER COLUMN %3$I TYPE timestamptz USING %3$I::timestamptz, then run the same again',
      the_table, found_text, the_times[1]);
  END IF;
  -- The key that rows are partitioned by must be in every unique index.
  IF fault IS NULL AND NOT EXISTS (
      SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
        AND (i.indnkeyatts = 1 OR kind = 'p') AND a.attname = the_key) THEN
    fault := format('%s exists, but its %s is not unique: add a primary key or a unique index on it, then run the same again',
      the_table, the_key);
  END IF;
  SELECT string_agg(DISTINCT a.attname::text, ', ') INTO found_text
    FROM pg_partition_tree(relation) t JOIN pg_partitioned_table p ON p.partrelid = t.relid
    JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs::smallint[])
   WHERE cardinality(the_unique) > 0 AND a.attname <> ALL (the_unique);
  IF fault IS NULL AND found_text IS NOT NULL THEN
    fault := format('%s is partitioned by %s, so PostgreSQL cannot keep (%s) unique over all of its partitions: '
      'partition it by these columns, or by one of them, then run the same again', the_table, found_text,
      array_to_string(the_unique, ', '));
  END IF;
  IF fault IS NULL AND pipestate.is_true(format('EXISTS (SELECT FROM %s WHERE %I IS NULL)', the_table, the_key), path) THEN
    fault := format('%s has rows without a %s, by which the migrations find rows: give them one or delete them, then run the same again',
      the_table, the_key);
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = fault;
  END IF;
END $$;

-- Comment on a table, and keep the former comment in the ledger.
CREATE OR REPLACE PROCEDURE pipestate.replace_comment(
  the_table text, the_comment text, the_revision text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former text := obj_description(pipestate.resolve(the_table, path), 'pg_class');
BEGIN
  IF former IS DISTINCT FROM the_comment THEN
    INSERT INTO pipestate.soft_drop (revision, kind, schema_name, table_name, name, removed, state)
    VALUES (the_revision, 'comment', '', the_table, the_table, jsonb_build_object('comment', former), 'absent');
  END IF;
  PERFORM pipestate.execute(format('COMMENT ON TABLE %s IS %L', the_table, the_comment), path);
END $$;

-- Restore the former comment of a table, unless the current one is another than `the_comment`.
CREATE OR REPLACE PROCEDURE pipestate.restore_comment(
  the_table text, the_comment text, the_revision text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former text;
BEGIN
  SELECT d.removed ->> 'comment' INTO former FROM pipestate.soft_drop d
   WHERE d.kind = 'comment' AND d.name = the_table AND d.revision = the_revision ORDER BY d.id DESC LIMIT 1;
  DELETE FROM pipestate.soft_drop d WHERE d.kind = 'comment' AND d.name = the_table AND d.revision = the_revision;
  IF obj_description(pipestate.resolve(the_table, path), 'pg_class') = the_comment THEN
    PERFORM pipestate.execute(format('COMMENT ON TABLE %s IS %L', the_table, former), path);
  END IF;
END $$;
