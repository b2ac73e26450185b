-- Say whether a table has no constraint of that name.
CREATE OR REPLACE FUNCTION pipestate.lacks_constraint(
  the_table text, the_name text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM pg_constraint k
                     WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.conname = the_name)
$$;

-- Say whether a table has no foreign key on that column to that table, with that action on delete (pg_constraint's letter).
CREATE OR REPLACE FUNCTION pipestate.lacks_foreign_key(
  the_table text, the_column text, the_target text, the_action text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM pg_constraint k
                     JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                     WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.contype = 'f' AND a.attname = the_column
                     AND k.confrelid = pipestate.resolve(the_target, path) AND k.confdeltype::text = the_action)
$$;

-- Add named CHECKs that a table lacks, NOT VALID under a short lock. Rows that break one are found first: nothing is
-- changed where there are any. The JSON object has a rule for each name.
CREATE OR REPLACE PROCEDURE pipestate.add_checks(
  the_table text, the_checks json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted record;
  is_locked boolean := false;
BEGIN
  FOR wanted IN SELECT key, value FROM json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key, path) LOOP
    CALL pipestate.refuse_rows(the_table, format('NOT (%s)', wanted.value),
      format('would break the rule %s (%s)', wanted.key, wanted.value), path => path);
  END LOOP;
  FOR wanted IN SELECT key, value FROM json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key, path) LOOP
    IF NOT is_locked THEN
      CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
      is_locked := true;
    END IF;
    PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, wanted.key, wanted.value), path);
    CALL pipestate.remember('constraint', concat(the_table, '.', wanted.key), the_revision);
  END LOOP;
END $$;

-- The definition of a foreign key of that name that has another target or another action on delete; NULL where there is none.
CREATE OR REPLACE FUNCTION pipestate.other_foreign_key(
  the_table text, the_name text, the_target text, the_action text, path text DEFAULT current_setting('search_path')) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
   WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.contype = 'f' AND k.conname = the_name
     AND (k.confrelid <> pipestate.resolve(the_target, path) OR k.confdeltype::text <> the_action)
$$;

-- Add a foreign key to each partition that lacks it, NOT VALID. The caller holds the lock.
CREATE OR REPLACE PROCEDURE pipestate.add_to_partitions(
  the_table text, the_name text, the_definition text, the_condition text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  leaf regclass;
BEGIN
  IF NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  FOR leaf IN
    SELECT t.relid FROM pg_partition_tree(pipestate.resolve(the_table, path)) t
     WHERE t.isleaf AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = t.relid AND k.conname = the_name)
  LOOP
    PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID', leaf, the_name, the_definition), path);
  END LOOP;
END $$;

-- List the statements that validate a foreign key of each partition beside the traffic, where the condition holds.
CREATE OR REPLACE FUNCTION pipestate.partition_key_steps(
  the_table text, the_name text, the_condition text, path text DEFAULT current_setting('search_path')) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', pipestate.spelled(t.relid, path), k.conname)
    FROM pg_partition_tree(pipestate.resolve(the_table, path)) t JOIN pg_constraint k ON k.conrelid = t.relid
   WHERE t.isleaf AND k.conname = the_name AND NOT k.convalidated AND pipestate.is_true(the_condition, path)
$$;

-- Validate constraints beside the traffic.
CREATE OR REPLACE PROCEDURE pipestate.validate_constraints(
  the_table text, the_names text[], the_part text DEFAULT NULL, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  todo text := (SELECT string_agg(format('VALIDATE CONSTRAINT %I', k.conname), ', ') FROM pg_constraint k
                WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.conname = ANY (the_names) AND NOT k.convalidated);
BEGIN
  CALL pipestate.require_part(the_part);
  IF todo IS NOT NULL THEN PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path); END IF;
END $$;

-- Refuse to go on where one of these constraints is not valid, or, where they are required, not there.
CREATE OR REPLACE PROCEDURE pipestate.require_valid(
  the_table text, the_names text[], are_required boolean, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text := (SELECT string_agg(n, ', ') FROM unnest(the_names) AS n
                 LEFT JOIN pg_constraint k ON k.conrelid = pipestate.resolve(the_table, path) AND k.conname = n
                 WHERE NOT coalesce(k.convalidated, NOT are_required));
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s of %s is not valid: see the error above', fault, the_table);
  END IF;
END $$;

-- Drop a constraint that a revision created, under a short lock on the table and those that its foreign keys point at.
CREATE OR REPLACE PROCEDURE pipestate.drop_constraint(
  the_table text, the_name text, is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  entry CONSTANT text := concat(the_table, '.', the_name);
BEGIN
  CALL pipestate.lock_relations(relation || pipestate.parents(relation), the_timeout_ms, the_patience_s, path);
  IF relation IS NOT NULL AND pipestate.is_ours('constraint', entry, is_registered) THEN
    PERFORM pipestate.execute(format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', the_table, the_name), path);
  END IF;
  CALL pipestate.forget('constraint', entry, is_registered);
END $$;
