-- Say whether a table has no constraint of that name.
CREATE OR REPLACE FUNCTION pipestate.lacks_constraint(the_table text, the_name text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
                     WHERE k.conrelid = pg_catalog.to_regclass(the_table)::oid AND k.conname::text = the_name)
$$;

-- Say whether a table has no foreign key on that column to that table, with that action on delete (pg_constraint's letter).
CREATE OR REPLACE FUNCTION pipestate.lacks_foreign_key(the_table text, the_column text, the_target text, the_action text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                     WHERE k.conrelid = pg_catalog.to_regclass(the_table)::oid AND k.contype = 'f' AND a.attname::text = the_column
                     AND k.confrelid = pg_catalog.to_regclass(the_target)::oid AND k.confdeltype::text = the_action)
$$;

-- Add named CHECKs that a table lacks, NOT VALID under a short lock. Rows that break one are found first: nothing is
-- changed where there are any. The JSON object has a rule for each name.
CREATE OR REPLACE PROCEDURE pipestate.add_checks(
  the_table text, the_checks json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  wanted record;
  is_locked boolean := false;
BEGIN
  FOR wanted IN SELECT key, value FROM pg_catalog.json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key) LOOP
    CALL pipestate.refuse_rows(the_table, pg_catalog.format('NOT (%s)', wanted.value),
      pg_catalog.format('would break the rule %s (%s)', wanted.key, wanted.value));
  END LOOP;
  FOR wanted IN SELECT key, value FROM pg_catalog.json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key) LOOP
    IF NOT is_locked THEN
      CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
      is_locked := true;
    END IF;
    EXECUTE pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, wanted.key, wanted.value);
    CALL pipestate.remember('constraint', pg_catalog.concat(the_table, '.', wanted.key), the_revision);
  END LOOP;
END $$;

-- Validate constraints beside the traffic.
CREATE OR REPLACE PROCEDURE pipestate.validate_constraints(the_table text, the_names text[], the_part text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  todo text := (SELECT pg_catalog.string_agg(pg_catalog.format('VALIDATE CONSTRAINT %I', k.conname), ', ') FROM pg_catalog.pg_constraint k
                WHERE k.conrelid = pg_catalog.to_regclass(the_table)::oid AND k.conname::text = ANY (the_names) AND NOT k.convalidated);
BEGIN
  CALL pipestate.require_part(the_part);
  IF todo IS NOT NULL THEN EXECUTE pg_catalog.format('ALTER TABLE %s %s', the_table, todo); END IF;
END $$;

-- Refuse to go on where one of these constraints is not valid, or, where they are required, not there.
CREATE OR REPLACE PROCEDURE pipestate.require_valid(the_table text, the_names text[], are_required boolean)
LANGUAGE plpgsql AS $$
DECLARE
  fault text := (SELECT pg_catalog.string_agg(n, ', ') FROM pg_catalog.unnest(the_names) AS n
                 LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = pg_catalog.to_regclass(the_table)::oid AND k.conname::text = n
                 WHERE NOT coalesce(k.convalidated, NOT are_required));
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s of %s is not valid: see the error above', fault, the_table);
  END IF;
END $$;

-- Drop a constraint that a revision created, under a short lock on the table and those that its foreign keys point at.
CREATE OR REPLACE PROCEDURE pipestate.drop_constraint(
  the_table text, the_name text, is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  entry CONSTANT text := pg_catalog.concat(the_table, '.', the_name);
BEGIN
  CALL pipestate.lock_tables(pg_catalog.array_cat(ARRAY[the_table], pipestate.parents(the_table)), the_timeout_ms => the_timeout_ms,
    the_patience_s => the_patience_s);
  IF pg_catalog.to_regclass(the_table) IS NOT NULL AND pipestate.is_ours('constraint', entry, is_registered) THEN
    EXECUTE pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', the_table, the_name);
  END IF;
  CALL pipestate.forget('constraint', entry, is_registered);
END $$;
