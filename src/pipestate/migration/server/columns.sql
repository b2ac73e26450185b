-- Say whether one of these columns may hold NULL.
CREATE OR REPLACE FUNCTION pipestate.is_nullable(
  the_table text, the_columns text[], path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path)
                 AND a.attname = ANY (the_columns) AND NOT a.attnotnull AND NOT a.attisdropped)
$$;

-- Say whether a table has all of these columns, and none of those.
CREATE OR REPLACE FUNCTION pipestate.has_columns(the_table text, the_columns text[], but_none_of text[], path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(a.attname::text) @> the_columns AND NOT array_agg(a.attname::text) && but_none_of, false)
    FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path) AND NOT a.attisdropped
$$;

-- Say whether a column may hold NULL, and has no default.
CREATE OR REPLACE FUNCTION pipestate.lacks_default(the_table text, the_column text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path)
                 AND a.attname = the_column AND NOT a.atthasdef AND NOT a.attnotnull)
$$;

-- Add the columns that a table lacks, in one ALTER under a short lock; give those that are there the default that they lack.
-- A column that is there with a type of another family is refused. The JSON object has a definition for each name. Columns
-- that a downgrade of the revision has hidden are restored first.
CREATE OR REPLACE PROCEDURE pipestate.add_columns(
  the_table text, the_columns json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  wanted record;
  todo text;
BEGIN
  IF the_revision IS NOT NULL THEN
    CALL pipestate.bring_back_columns(the_table, the_revision, the_timeout_ms, the_patience_s, path);
  END IF;
  FOR wanted IN
    SELECT f.must_hold, string_agg(concat(a.attname, ' as ', format_type(a.atttypid, a.atttypmod)), ', ') AS wrong
    FROM json_each_text(the_columns) AS d (name, definition)
    JOIN (VALUES ('integers', '^(integer|bigint|smallint)'), ('text', '^(varchar|text|char)'), ('booleans', '^boolean'),
                 ('times', '^timestamp')) AS f (must_hold, pattern) ON lower(d.definition) ~ f.pattern
    JOIN pg_attribute a ON a.attrelid = relation AND a.attname = d.name AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE NOT CASE f.must_hold WHEN 'integers' THEN t.typname IN ('int2', 'int4', 'int8')
                   WHEN 'text' THEN t.typcategory IN ('S', 'E') WHEN 'booleans' THEN t.typname = 'bool'
                   ELSE t.typname IN ('timestamp', 'timestamptz') END
    GROUP BY f.must_hold LIMIT 1
  LOOP
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s has %s, but that must hold %s: rename it or change its type, then run the same again', the_table, wanted.wrong, wanted.must_hold);
  END LOOP;
  FOR wanted IN
    SELECT d.name, a.attname IS NULL AS is_missing, CASE
             WHEN a.attname IS NULL THEN format('ADD COLUMN IF NOT EXISTS %I %s', d.name, d.definition)
             WHEN NOT a.atthasdef AND d.definition ~ ' DEFAULT ' AND d.definition !~ ' GENERATED ' THEN format('ALTER COLUMN %I SET DEFAULT %s', d.name,
               regexp_replace(d.definition, '^.*? DEFAULT (.*?)( NOT NULL)?$', '\1')) END AS action
    FROM json_each_text(the_columns) WITH ORDINALITY AS d (name, definition, n)
    LEFT JOIN pg_attribute a ON a.attrelid = relation AND a.attname = d.name AND NOT a.attisdropped
    ORDER BY d.n
  LOOP
    CONTINUE WHEN wanted.action IS NULL;
    todo := concat_ws(', ', todo, wanted.action);
    IF wanted.is_missing THEN
      CALL pipestate.remember('column', concat(the_table, '.', wanted.name), the_revision);
    END IF;
  END LOOP;
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path);
END $$;

-- Drop the columns that a revision created, under a short lock. With a registry, those of a table with rows are hidden: the
-- upgrade restores them.
CREATE OR REPLACE PROCEDURE pipestate.drop_columns(
  the_table text, the_columns text[], the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  is_registered CONSTANT boolean := the_revision IS NOT NULL;
  ours CONSTANT text[] := ARRAY(
    SELECT a.attname FROM pg_attribute a
     WHERE a.attrelid = relation AND a.attname = ANY (the_columns) AND NOT a.attisdropped
       AND pipestate.is_ours('column', concat(the_table, '.', a.attname), is_registered));
  name text;
BEGIN
  IF cardinality(ours) > 0 THEN
    CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
    IF is_registered AND pipestate.is_true(format('EXISTS (SELECT FROM %s)', the_table), path) THEN
      CALL pipestate.soft_drop_columns(the_revision, NULL, the_table, relation, ours, '{}', '{}', false);
    ELSE
      PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table,
        (SELECT string_agg(format('DROP COLUMN %I', c), ', ') FROM unnest(ours) AS c)), path);
    END IF;
  END IF;
  FOREACH name IN ARRAY the_columns LOOP
    CALL pipestate.forget('column', concat(the_table, '.', name), is_registered);
  END LOOP;
END $$;

-- Turn naive timestamps into timestamptz, read in this time zone: with UTC no row is written. The indexes named are dropped
-- first, as they would be rebuilt under the lock.
CREATE OR REPLACE PROCEDURE pipestate.use_timestamptz(
  the_table text, the_columns text[], the_zone text, the_indexes text[] DEFAULT '{}',
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  todo text := (SELECT string_agg(format('ALTER COLUMN %I TYPE timestamptz', a.attname), ', ')
                FROM pg_attribute a WHERE a.attrelid = relation
                AND a.atttypid = 'timestamp'::regtype AND a.attname = ANY (the_columns) AND NOT a.attisdropped);
  name text;
BEGIN
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
  FOREACH name IN ARRAY the_indexes LOOP
    PERFORM pipestate.execute(format('DROP INDEX IF EXISTS %s', name), path);
  END LOOP;
  PERFORM set_config('TimeZone', the_zone, true);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path);
  PERFORM set_config('TimeZone', 'UTC', true);
END $$;

-- Make columns NOT NULL, first step: a CHECK that says the same, which is validated beside the traffic.
CREATE OR REPLACE PROCEDURE pipestate.begin_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns, path) OR NOT pipestate.lacks_constraint(the_table, the_rule, path) THEN
    RETURN;
  END IF;
  CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, the_rule,
    (SELECT string_agg(format('%I IS NOT NULL', c), ' AND ') FROM unnest(the_columns) AS c)), path);
END $$;

-- The second step: NOT NULL over the validated CHECK, which then goes.
CREATE OR REPLACE PROCEDURE pipestate.end_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  has_rule boolean := NOT pipestate.lacks_constraint(the_table, the_rule, path);
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns, path) AND NOT has_rule THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table,
    (SELECT string_agg(format('ALTER COLUMN %I SET NOT NULL', c), ', ') FROM unnest(the_columns) AS c)), path);
  IF has_rule THEN PERFORM pipestate.execute(format('ALTER TABLE %s DROP CONSTRAINT %I', the_table, the_rule), path); END IF;
END $$;
