-- Say whether one of these columns may hold NULL.
CREATE OR REPLACE FUNCTION pipestate.is_nullable(the_table text, the_columns text[]) RETURNS boolean
LANGUAGE sql AS $$
  SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass(the_table)::oid
                 AND a.attname::text = ANY (the_columns) AND NOT a.attnotnull AND NOT a.attisdropped)
$$;

-- Add the columns that a table lacks, in one ALTER under a short lock; give those that are there the default that they lack.
-- A column that is there with a type of another family is refused. The JSON object has a definition for each name. Columns
-- that a downgrade of the revision has hidden are restored first.
CREATE OR REPLACE PROCEDURE pipestate.add_columns(
  the_table text, the_columns json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  relation oid := pg_catalog.to_regclass(the_table)::oid;
  wanted record;
  missing text[];
  todo text;
BEGIN
  IF the_revision IS NOT NULL THEN
    CALL pipestate.bring_back_columns(the_table, the_revision, the_timeout_ms, the_patience_s);
  END IF;
  FOR wanted IN
    SELECT f.must_hold, pg_catalog.string_agg(pg_catalog.concat(a.attname::text, ' as ', pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ') AS wrong
    FROM pg_catalog.json_each_text(the_columns) AS d (name, definition)
    JOIN (VALUES ('integers', '^(integer|bigint|smallint)'), ('text', '^(varchar|text|char)'), ('booleans', '^boolean'),
                 ('times', '^timestamp')) AS f (must_hold, pattern) ON pg_catalog.lower(d.definition) ~ f.pattern
    JOIN pg_catalog.pg_attribute a ON a.attrelid = relation AND a.attname::text = d.name AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE NOT CASE f.must_hold WHEN 'integers' THEN t.typname::text IN ('int2', 'int4', 'int8')
                   WHEN 'text' THEN t.typcategory IN ('S'::"char", 'E'::"char") WHEN 'booleans' THEN t.typname::text = 'bool'
                   ELSE t.typname::text IN ('timestamp', 'timestamptz') END
    GROUP BY f.must_hold LIMIT 1
  LOOP
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s has %s, but that must hold %s: rename it or change its type, then run the same again', the_table, wanted.wrong, wanted.must_hold);
  END LOOP;
  FOR wanted IN
    SELECT d.name, a.attname IS NULL AS is_missing, CASE
             WHEN a.attname IS NULL THEN pg_catalog.format('ADD COLUMN IF NOT EXISTS %I %s', d.name, d.definition)
             WHEN NOT a.atthasdef AND d.definition ~ ' DEFAULT ' AND d.definition !~ ' GENERATED ' THEN pg_catalog.format('ALTER COLUMN %I SET DEFAULT %s', d.name,
               pg_catalog.regexp_replace(d.definition, '^.*? DEFAULT (.*?)( NOT NULL)?$', '\1')) END AS action
    FROM pg_catalog.json_each_text(the_columns) WITH ORDINALITY AS d (name, definition, n)
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = relation AND a.attname::text = d.name AND NOT a.attisdropped
    ORDER BY d.n
  LOOP
    CONTINUE WHEN wanted.action IS NULL;
    todo := pg_catalog.concat_ws(', ', todo, wanted.action);
    IF wanted.is_missing THEN
      CALL pipestate.remember('column', pg_catalog.concat(the_table, '.', wanted.name), the_revision);
    END IF;
  END LOOP;
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
  EXECUTE pg_catalog.format('ALTER TABLE %s %s', the_table, todo);
END $$;

-- Drop the columns that a revision created, under a short lock. With a registry, those of a table with rows are hidden: the
-- upgrade restores them.
CREATE OR REPLACE PROCEDURE pipestate.drop_columns(
  the_table text, the_columns text[], the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  is_registered CONSTANT boolean := the_revision IS NOT NULL;
  ours CONSTANT text[] := ARRAY(
    SELECT a.attname::text FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = pg_catalog.to_regclass(the_table)::oid AND a.attname::text = ANY (the_columns) AND NOT a.attisdropped
       AND pipestate.is_ours('column', pg_catalog.concat(the_table, '.', a.attname::text), is_registered));
  name text;
BEGIN
  IF pg_catalog.cardinality(ours) > 0 THEN
    CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
    IF is_registered AND pipestate.holds(pg_catalog.format('EXISTS (SELECT FROM %s)', the_table)) THEN
      CALL pipestate.soft_drop_columns(the_revision, NULL, the_table, pg_catalog.to_regclass(the_table), ours, '{}', '{}', false);
    ELSE
      EXECUTE pg_catalog.format('ALTER TABLE %s %s', the_table,
        (SELECT pg_catalog.string_agg(pg_catalog.format('DROP COLUMN %I', c), ', ') FROM pg_catalog.unnest(ours) AS c));
    END IF;
  END IF;
  FOREACH name IN ARRAY the_columns LOOP
    CALL pipestate.forget('column', pg_catalog.concat(the_table, '.', name), is_registered);
  END LOOP;
END $$;

-- Turn naive timestamps into timestamptz, read in this time zone: with UTC no row is written. The indexes named are dropped
-- first, as they would be rebuilt under the lock.
CREATE OR REPLACE PROCEDURE pipestate.use_timestamptz(
  the_table text, the_columns text[], the_zone text, the_indexes text[] DEFAULT '{}',
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  todo text := (SELECT pg_catalog.string_agg(pg_catalog.format('ALTER COLUMN %I TYPE timestamptz', a.attname), ', ')
                FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass(the_table)::oid
                AND a.atttypid = 'pg_catalog.timestamp'::pg_catalog.regtype::oid AND a.attname::text = ANY (the_columns) AND NOT a.attisdropped);
  name text;
BEGIN
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
  FOREACH name IN ARRAY the_indexes LOOP
    EXECUTE pg_catalog.format('DROP INDEX IF EXISTS %s', name);
  END LOOP;
  PERFORM pg_catalog.set_config('TimeZone', the_zone, true);
  EXECUTE pg_catalog.format('ALTER TABLE %s %s', the_table, todo);
  PERFORM pg_catalog.set_config('TimeZone', 'UTC', true);
END $$;

-- Make columns NOT NULL, first step: a CHECK that says the same, which is validated beside the traffic.
CREATE OR REPLACE PROCEDURE pipestate.begin_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns) OR NOT pipestate.lacks_constraint(the_table, the_rule) THEN RETURN; END IF;
  CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
  EXECUTE pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, the_rule,
    (SELECT pg_catalog.string_agg(pg_catalog.format('%I IS NOT NULL', c), ' AND ') FROM pg_catalog.unnest(the_columns) AS c));
END $$;

-- The second step: NOT NULL over the validated CHECK, which then goes.
CREATE OR REPLACE PROCEDURE pipestate.end_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  has_rule boolean := NOT pipestate.lacks_constraint(the_table, the_rule);
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns) AND NOT has_rule THEN RETURN; END IF;
  CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
  EXECUTE pg_catalog.format('ALTER TABLE %s %s', the_table,
    (SELECT pg_catalog.string_agg(pg_catalog.format('ALTER COLUMN %I SET NOT NULL', c), ', ') FROM pg_catalog.unnest(the_columns) AS c));
  IF has_rule THEN EXECUTE pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT %I', the_table, the_rule); END IF;
END $$;
